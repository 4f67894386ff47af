package nfs

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"path"
	"time"

	"softrdma/storage/internal/streams"
	"softrdma/storage/rpcrdma/wire"
)

// markLen is the length of a record mark (RFC 5531 11), markLast its flag of a record's last fragment.
const (
	markLen  = 4
	markLast = 1 << 31
)

// Limits of the MOUNT server.
const (
	maxMountCall  = 8 << 10 // bytes
	maxMountReply = 1 << 10
	maxMounts     = 64 // connections at a time
	mountTimeout  = 30 * time.Second
)

// ServeMount serves the MOUNT protocol on TCP connections, and no other. It returns when the context
// ends, after it has closed the listener and its connections.
func (s *Service) ServeMount(ctx context.Context, l net.Listener) error {
	return streams.Serve(ctx, l, maxMounts, func(ctx context.Context, c net.Conn) {
		for s.mountCall(ctx, c) == nil {
		}
	})
}

// mountCall answers a call. An error ends the connection.
func (s *Service) mountCall(ctx context.Context, c net.Conn) error {
	if err := c.SetDeadline(time.Now().Add(mountTimeout)); err != nil {
		return err
	}
	var mark [markLen]byte
	if _, err := io.ReadFull(c, mark[:]); err != nil {
		return err
	}
	n := binary.BigEndian.Uint32(mark[:])
	if n&markLast == 0 || n&^markLast > maxMountCall {
		return wire.ErrCall
	}
	b := make([]byte, n&^markLast)
	if _, err := io.ReadFull(c, b); err != nil {
		return err
	}
	h, err := wire.ParseCall(b)
	if err != nil {
		return err
	}
	reply, size := make([]byte, markLen+maxMountReply), 0
	if h.Program == programMount {
		size, _, err = s.Call(ctx, b, reply[markLen:])
	} else {
		x := call{results: results{b: reply[markLen:markLen]}}
		size, _, err = x.answer(h.XID, statUnavail)
	}
	if err != nil {
		return err
	}
	binary.BigEndian.PutUint32(reply, uint32(size)|markLast)
	_, err = c.Write(reply[:markLen+size])
	return err
}

// mountProcedures are the procedures of MOUNT (RFC 1813 5.2), by number.
var mountProcedures = [...]func(*call) error{(*call).null, (*call).mount, (*call).mounts, (*call).unmount, (*call).null, (*call).exports}

// Results of MOUNT (mountstat3), and flavors of credentials.
const (
	mountNoEntry = 2
	authNone     = 0
	authUnix     = 1
)

// mount answers with the handle of the directory, which is "/".
func (c *call) mount() error {
	dir := c.args.path()
	if c.args.bad {
		return errArguments
	}
	if path.Clean("/"+dir) != "/" {
		c.results.uint32(mountNoEntry)
		return nil
	}
	c.ok()
	c.results.opaque(c.s.tree.key.handle(c.s.tree.top.id))
	c.results.uint32(2, authUnix, authNone)
	return nil
}

// mounts answers with no entry: the server keeps none.
func (c *call) mounts() error {
	c.results.uint32(0)
	return nil
}

func (c *call) unmount() error {
	if c.args.path(); c.args.bad {
		return errArguments
	}
	return nil
}

// exports answers with the directory, for every host.
func (c *call) exports() error {
	c.results.uint32(1)
	c.results.string("/")
	c.results.uint32(0, 0) // no groups, no other entry
	return nil
}
