package rping

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"softrdma/cmd/softrdma/internal/cli"
	"softrdma/rdmacm"
	"softrdma/verbs"
)

// A message is a message between the two ends of an rping. The client sends the address of its
// ping for reading and then the address for writing it back. The server answers each when it
// is done, with a message whose content does not matter.
type message = verbs.RemoteMemory

// fillPing fills b with ping n as rping does: its number as text, then the characters
// from 'A' to 'z', which begin one further with each ping, and a zero byte.
func fillPing(b []byte, n int) {
	const first, last = 'A', 'z'
	text := copy(b, fmt.Sprintf("rdma-ping-%d: ", n))
	for i := range b[text:] {
		b[text+i] = byte(first + (n+i)%(last-first+1))
	}
	b[len(b)-1] = 0
}

// pingText returns a ping without its zero byte.
func pingText(b []byte) []byte {
	text, _, _ := bytes.Cut(b, []byte{0})
	return text
}

// checkPing compares a ping with the expected one.
func checkPing(want, found []byte) error {
	for i, c := range found {
		if c != want[i] {
			return fmt.Errorf("byte %d: expected %#02x, found %#02x", i, want[i], c)
		}
	}
	return nil
}

// ping pings as the client until it has sent all pings or ctx ends. It returns how many
// came back.
func (s *side) ping(ctx context.Context) (n int, err error) {
	within, stop := s.whileConnected(context.WithoutCancel(ctx))
	defer stop()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(interruptGrace, stop) })()
	for ; s.p.count == 0 || n < s.p.count; n++ {
		if ctx.Err() != nil {
			return n, ctx.Err()
		}
		if err := s.pingOnce(within, n); err != nil {
			return n, s.withPingNumber(err, n)
		}
	}
	return n, nil
}

// withPingNumber adds to an error the number of the ping in which it occurred.
func (s *side) withPingNumber(err error, n int) error {
	if errors.Is(err, rdmacm.ErrDisconnected) {
		return cli.PeerErrorf("ping %d: %w: see its error message", n, err)
	}
	return fmt.Errorf("ping %d: %w", n, err)
}

func (s *side) pingOnce(ctx context.Context, n int) error {
	fillPing(s.out, n)
	size := uint32(len(s.out))
	if err := s.send(message{Addr: s.mrs[1].Addr(), RKey: s.mrs[1].RKey(), Length: size}); err != nil {
		return err
	}
	if _, err := s.receive(ctx); err != nil {
		return err
	}
	s.p.debugf("ping %d was read by the server", n)
	if err := s.send(message{Addr: s.mrs[2].Addr(), RKey: s.mrs[2].RKey(), Length: size}); err != nil {
		return err
	}
	if _, err := s.receive(ctx); err != nil {
		return err
	}
	s.p.debugf("ping %d was written back", n)
	if s.p.validate {
		if err := checkPing(s.out, s.in); err != nil {
			return cli.DataErrorf("data differs from what was sent: %w", err)
		}
	}
	s.p.showPing("ping data", s.in)
	return nil
}

// answer answers pings as the server until the client disconnects between two of them.
func (s *side) answer(ctx context.Context) (n int, err error) {
	ctx, stop := s.whileConnected(ctx)
	defer stop()
	for ; ; n++ {
		m, err := s.receive(ctx)
		if errors.Is(err, rdmacm.ErrDisconnected) {
			return n, nil
		}
		if err == nil {
			err = s.answerOnce(ctx, m, n)
		}
		if err != nil {
			return n, s.withPingNumber(err, n)
		}
	}
}

func (s *side) answerOnce(ctx context.Context, source message, n int) error {
	if uint64(source.Length) > uint64(len(s.in)) {
		return cli.PeerErrorf("%v has a ping of %d bytes, this side takes %d: both need the same -S", s.conn.RemoteAddr(), source.Length, len(s.in))
	}
	ping := s.in[:source.Length]
	if err := s.transfer(ctx, verbs.OpRead, source, len(ping)); err != nil {
		return err
	}
	s.p.debugf("ping %d: read %d bytes", n, len(ping))
	if s.p.validate && len(ping) > 0 {
		want := make([]byte, len(ping))
		fillPing(want, n)
		if err := checkPing(want, ping); err != nil {
			return cli.DataErrorf("data differs from what rping sends: %w", err)
		}
	}
	s.p.showPing("server ping data", ping)
	if err := s.send(message{}); err != nil {
		return err
	}
	sink, err := s.receive(ctx)
	if err != nil {
		return err
	}
	// rping also writes back only the text and its zero byte.
	back := min(len(pingText(ping))+1, len(ping))
	if uint64(back) > uint64(sink.Length) {
		return cli.PeerErrorf("%v has %d bytes of memory for the ping, expected %d", s.conn.RemoteAddr(), sink.Length, back)
	}
	if err := s.transfer(ctx, verbs.OpWrite, sink, back); err != nil {
		return err
	}
	s.p.debugf("ping %d: wrote %d bytes", n, back)
	return s.send(message{})
}
