package nfs

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"softrdma/storage/rpcrdma/wire"
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
	var all sync.WaitGroup
	defer all.Wait()
	defer context.AfterFunc(ctx, func() { l.Close() })()
	tokens := make(chan struct{}, maxMounts)
	for {
		c, err := l.Accept()
		if err != nil {
			if ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
				return context.Cause(ctx)
			}
			return err
		}
		tokens <- struct{}{}
		all.Go(func() {
			defer func() { <-tokens }()
			defer c.Close()
			defer context.AfterFunc(ctx, func() { c.Close() })()
			for s.mountCall(ctx, c) == nil {
			}
		})
	}
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
	call := make([]byte, n&^markLast)
	if _, err := io.ReadFull(c, call); err != nil {
		return err
	}
	h, err := wire.ParseCall(call)
	if err != nil {
		return err
	}
	reply, size := make([]byte, markLen+maxMountReply), 0
	if h.Program == programMount {
		size, _, err = s.Call(ctx, call, reply[markLen:])
	} else {
		size, err = answer(h.XID, reply[markLen:], statUnavail)
	}
	if err != nil {
		return err
	}
	binary.BigEndian.PutUint32(reply, uint32(size)|markLast)
	_, err = c.Write(reply[:markLen+size])
	return err
}
