package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"slices"
	"time"

	"softrdma/rdmanet"
)

// riostream writes into memory that the peer has mapped. The last byte of a transfer is a marker.
// The peer polls its memory for the marker.
func riostream(ctx context.Context, f *flag.FlagSet, args []string) error {
	var o streamOptions
	o.define(f)
	f.Parse(args)
	return o.each(ctx, func(c net.Conn, size int) error {
		s := &mapped{Conn: c.(*rdmanet.Conn), buf: make([]byte, size)}
		return s.run(ctx, o, o.server != "")
	})
}

// mapped is the state of one riostream test.
type mapped struct {
	*rdmanet.Conn
	buf     []byte // written by this side and by the peer in turn
	out, in byte   // next bytes of the pattern
	marker  byte   // of the next transfer, in either direction
}

func (s *mapped) run(ctx context.Context, o streamOptions, client bool) error {
	s.buf[len(s.buf)-1] = 0xff
	m, err := s.MapMemory(s.buf, 0)
	if err != nil {
		return err
	}
	if err := s.sync(client); err != nil {
		return errors.Join(err, m.Unmap())
	}
	first, second := s.await, s.write
	if client {
		first, second = s.write, s.await
	}
	for range o.iterations {
		if err := first(ctx, o.transfers); err != nil {
			return errors.Join(err, m.Unmap())
		}
		if err := second(ctx, o.transfers); err != nil {
			return errors.Join(err, m.Unmap())
		}
	}
	// The peer unmaps its memory without notice, so no write may still be in flight.
	return m.Unmap()
}

// sync sends and receives one message, so that the peer knows this side's mapping.
func (s *mapped) sync(client bool) error {
	send := func() error { _, err := s.Write(make([]byte, syncSize)); return err }
	receive := func() error { _, err := io.ReadFull(s, make([]byte, syncSize)); return err }
	if client {
		return errors.Join(send(), receive())
	}
	return errors.Join(receive(), send())
}

// write writes the buffer as often as the test asks, the last time with pattern and marker.
func (s *mapped) write(_ context.Context, transfers int) error {
	last := len(s.buf) - 1
	for i := range transfers {
		if i == transfers-1 {
			count(s.buf[:last], &s.out)
			s.buf[last] = s.marker
			s.marker++
		}
		if _, err := s.WriteMapped(s.buf, 0); err != nil {
			return err
		}
	}
	return nil
}

// await waits for the peer's marker.
func (s *mapped) await(ctx context.Context, _ int) error {
	last := len(s.buf) - 1
	for s.buf[last] != s.marker {
		if ctx.Err() != nil {
			return fmt.Errorf("the marker %d did not come: %w", s.marker, context.Cause(ctx))
		}
		time.Sleep(20 * time.Microsecond)
	}
	s.marker++
	want := make([]byte, last)
	count(want, &s.in)
	if !slices.Equal(s.buf[:last], want) {
		return fmt.Errorf("the %d bytes before marker %d are not those that were sent", last, s.marker-1)
	}
	return nil
}
