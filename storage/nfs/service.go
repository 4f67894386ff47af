package nfs

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"os"
	"sync/atomic"

	"softrdma/storage/rpcrdma"
	"softrdma/storage/rpcrdma/wire"
)

// Numbers of programs (RFC 1813).
const (
	programNFS   = 100003
	programMount = 100005
	version      = 3
)

// Results of RPC (RFC 5531 9).
const (
	statUnavail   = 1 // program
	statMismatch  = 2 // version of the program
	statProcedure = 3
	statGarbage   = 4
)

// acceptedLen is the length of the header of an accepted reply without verifier, maxChange the most that
// a procedure replies that changes something, bytes.
const (
	acceptedLen = 24
	maxChange   = acceptedLen + 4 + 4 + 4 + maxHandle + 4 + fattrLen + 2*(4+4+fattrLen)
)

// A Service is a directory that is served. It implements rpcrdma.Service.
type Service struct {
	tree     tree
	readOnly bool
	verifier atomic.Uint64 // of this run of the server, and since data was lost (RFC 1813 3.3.7)
	replays  replays
	sync     func(*os.File) error
}

// Open opens a directory to serve it. The caller closes it.
func Open(dir string, readOnly bool) (*Service, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	s := &Service{tree: tree{root: root}, readOnly: readOnly, replays: newReplays(), sync: (*os.File).Sync}
	s.verifier.Store(randomVerifier())
	if err := s.tree.start(); err != nil {
		return nil, errors.Join(err, root.Close())
	}
	return s, nil
}

func randomVerifier() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return binary.BigEndian.Uint64(b[:])
}

// stable returns when what was written to a file is on disk. The system reports only once that it could not
// write data, although the data may be that of several clients. So all must learn that, by another verifier,
// and write again what they have not committed.
func (s *Service) stable(f *os.File) error {
	err := s.sync(f)
	if err != nil {
		s.verifier.Store(randomVerifier())
	}
	return err
}

// Close releases the directory. No call may be executed any more.
func (s *Service) Close() error { return s.tree.root.Close() }

// Call implements rpcrdma.Service.
func (s *Service) Call(ctx context.Context, b, reply []byte) (int, []rpcrdma.Item, error) {
	h, err := wire.ParseCall(b)
	if err != nil {
		return 0, nil, err
	}
	c := &call{s: s, args: args{b: b[h.Arguments:]}, results: results{b: reply[:0:len(reply)]}}
	var p procedure
	switch {
	case h.Program != programNFS && h.Program != programMount:
		return c.answer(h.XID, statUnavail)
	case h.Version != version:
		return c.answer(h.XID, statMismatch, version, version)
	case h.Program == programNFS && h.Procedure < uint32(len(procedures)):
		p = procedures[h.Procedure]
	case h.Program == programMount && h.Procedure < uint32(len(mountProcedures)):
		p = procedure{run: mountProcedures[h.Procedure]}
	default:
		return c.answer(h.XID, statProcedure)
	}
	if !p.changes {
		return c.execute(h.XID, p)
	}
	if len(reply) < maxChange { // before anything has changed
		return 0, nil, rpcrdma.ErrReplySize
	}
	n, err := s.replays.do(rpcrdma.ClientOf(ctx), h, b, reply, func() (int, error) {
		n, _, err := c.execute(h.XID, p)
		return n, err
	})
	return n, nil, err
}

// A call is executed once.
type call struct {
	s       *Service
	args    args
	results results
	objects []*object // of the handles, in the order of the arguments
	items   []rpcrdma.Item
}

// A procedure executes a call.
type procedure struct {
	run     func(*call) error // writes the results that follow the status
	failed  string            // what follows the status of a failure for each object: a post_op_attr, or w wcc_data
	changes bool              // it changes something, so it must not be executed twice
}

// answer writes an accepted reply.
func (c *call) answer(xid uint32, words ...uint32) (int, []rpcrdma.Item, error) {
	c.results.b = c.results.b[:0]
	c.results.uint32(xid, 1, 0, 0, 0)
	c.results.uint32(words...)
	if c.results.full {
		return 0, nil, rpcrdma.ErrReplySize
	}
	return len(c.results.b), c.items, nil
}

// execute executes a call, and writes the reply.
func (c *call) execute(xid uint32, p procedure) (int, []rpcrdma.Item, error) {
	defer func() {
		for _, o := range c.objects {
			o.close()
		}
	}()
	c.results.uint32(xid, 1, 0, 0, 0, 0)
	var err error
	if c.s.readOnly && p.changes {
		err = errReadOnly
	} else {
		err = p.run(c)
	}
	switch {
	case errors.Is(err, errArguments):
		return c.answer(xid, statGarbage)
	case errors.Is(err, rpcrdma.ErrReplySize):
		return 0, nil, err
	case err != nil:
		c.items = nil
		c.results.b = c.results.b[:acceptedLen]
		c.results.uint32(uint32(statusOf(err)))
		for i, kind := range p.failed {
			if kind == 'w' {
				c.wcc(i)
			} else {
				c.postOp(i)
			}
		}
	}
	if c.results.full {
		return 0, nil, rpcrdma.ErrReplySize
	}
	return len(c.results.b), c.items, nil
}

// open opens the file of a handle. All arguments are taken before.
func (c *call) open(handle []byte) (*object, error) {
	if c.args.bad {
		return nil, errArguments
	}
	id, err := c.s.tree.key.parse(handle)
	if err != nil {
		return nil, err
	}
	c.s.tree.changing.RLock()
	defer c.s.tree.changing.RUnlock()
	o, err := c.s.tree.open(id)
	if err != nil {
		return nil, err
	}
	c.objects = append(c.objects, o)
	return o, nil
}

// directory opens the directory of a handle.
func (c *call) directory(handle []byte) (*object, error) {
	o, err := c.open(handle)
	if err != nil {
		return nil, err
	}
	return o, o.isDirectory()
}

// ok writes the status.
func (c *call) ok() { c.results.uint32(0) }

// postOp writes a post_op_attr of an object that was opened.
func (c *call) postOp(i int) {
	if i < len(c.objects) {
		c.attributes(c.objects[i])
	} else {
		c.results.uint32(0)
	}
}

func (c *call) attributes(o *object) {
	a, err := o.stat()
	c.results.bool(err == nil)
	if err == nil {
		c.results.fattr(a)
	}
}

// wcc writes wcc_data of an object that was opened. It has no attributes of before: others may change the
// file in between, and clients would keep what is not valid any more (RFC 1813 2.6).
func (c *call) wcc(i int) {
	c.results.uint32(0)
	c.postOp(i)
}
