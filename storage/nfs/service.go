package nfs

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"io"
	"io/fs"
	"net"
	"os"
	"strings"
	"sync"

	"github.com/go-git/go-billy/v5"
	gonfs "github.com/willscott/go-nfs"

	"softrdma/storage/rpcrdma"
	"softrdma/storage/rpcrdma/wire"
)

// Numbers of programs (RFC 1813).
const (
	programNFS   = 100003
	programMount = 100005
	version      = 3
)

// A Service is a directory that is served. It implements rpcrdma.Service.
type Service struct {
	tree    tree
	workers workers
	listing listings
	served  sync.WaitGroup
}

var quiet sync.Once

// Open opens a directory to serve it. The caller closes it.
func Open(dir string, readOnly bool) (*Service, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	// Clients cause the messages of the library's log: a file that does not exist is one.
	quiet.Do(func() { gonfs.Log.SetLevel(gonfs.PanicLevel) })
	s := &Service{tree: tree{root: root, readOnly: readOnly}, workers: newWorkers()}
	server := &gonfs.Server{Handler: handler{s}}
	s.served.Go(func() { _ = server.Serve(&s.workers) }) // ends when the workers are closed
	return s, nil
}

// Close releases the directory. No call may be executed any more.
func (s *Service) Close() error {
	s.workers.end()
	s.served.Wait()
	return s.tree.root.Close()
}

// Call implements rpcrdma.Service.
func (s *Service) Call(_ context.Context, call, reply []byte) (int, []rpcrdma.Item, error) {
	c, err := wire.ParseCall(call)
	if err != nil {
		return 0, nil, err
	}
	n, answered, err := check(c, call, reply)
	if answered || err != nil {
		return n, nil, err
	}
	if n, err = s.workers.call(call, reply); err != nil {
		return 0, nil, err
	}
	return n, items(c, reply[:n]), nil
}

// A handler is a service as go-nfs sees it.
type handler struct{ *Service }

var _ gonfs.CachingHandler = handler{}

// Mount implements gonfs.Handler. The directory is "/".
func (h handler) Mount(_ context.Context, _ net.Conn, r gonfs.MountRequest) (gonfs.MountStatus, billy.Filesystem, []gonfs.AuthFlavor) {
	if p := string(r.Dirpath); local(p) != "." {
		return gonfs.MountStatusErrNoEnt, &h.tree, nil
	}
	return gonfs.MountStatusOk, &h.tree, []gonfs.AuthFlavor{gonfs.AuthFlavorUnix, gonfs.AuthFlavorNull}
}

// Change implements gonfs.Handler.
func (h handler) Change(billy.Filesystem) billy.Change { return &h.tree }

// FSStat implements gonfs.Handler.
func (h handler) FSStat(_ context.Context, _ billy.Filesystem, s *gonfs.FSStat) error {
	return statFS(h.tree.root, s)
}

// ToHandle implements gonfs.Handler.
func (h handler) ToHandle(_ billy.Filesystem, path []string) []byte {
	return h.tree.handle(local(strings.Join(path, "/")))
}

// FromHandle implements gonfs.Handler. The path has no room to append to.
func (h handler) FromHandle(b []byte) (billy.Filesystem, []string, error) {
	p, err := h.tree.resolve(b)
	if err != nil {
		return nil, nil, err
	}
	if p == "." {
		return &h.tree, nil, nil
	}
	return &h.tree, strings.Split(p, "/"), nil
}

// InvalidateHandle implements gonfs.Handler. A handle is compared with its file at each use.
func (h handler) InvalidateHandle(billy.Filesystem, []byte) error { return nil }

// HandleLimit implements gonfs.Handler: entries of a directory in one reply are half of it.
func (h handler) HandleLimit() int { return 1 << 16 }

// VerifierFor implements gonfs.CachingHandler.
func (h handler) VerifierFor(path string, contents []fs.FileInfo) uint64 {
	sum := sha256.New()
	_, _ = io.WriteString(sum, path)
	for _, c := range contents {
		_, _ = io.WriteString(sum, "/"+c.Name())
	}
	v := binary.BigEndian.Uint64(sum.Sum(nil))
	h.listing.add(listing{path, v, contents})
	return v
}

// DataForVerifier implements gonfs.CachingHandler.
func (h handler) DataForVerifier(path string, verifier uint64) []fs.FileInfo {
	return h.listing.find(path, verifier)
}

// A listing is what a directory had when a client began to read it.
type listing struct {
	path     string
	verifier uint64
	contents []fs.FileInfo
}

// listings keeps the listings that were made last.
type listings struct {
	mu   sync.Mutex
	last [16]listing
	next int
}

func (l *listings) add(new listing) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.last {
		if l.last[i].path == new.path && l.last[i].verifier == new.verifier {
			l.last[i] = new
			return
		}
	}
	l.last[l.next] = new
	l.next = (l.next + 1) % len(l.last)
}

func (l *listings) find(path string, verifier uint64) []fs.FileInfo {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.last {
		if e.path == path && e.verifier == verifier {
			return e.contents
		}
	}
	return nil
}
