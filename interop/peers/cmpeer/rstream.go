package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"
)

// rstreamSizes returns the sizes of rstream -S all.
func rstreamSizes() []int {
	sizes := []int{64}
	for size := 128; size <= 4<<20; size *= 2 {
		sizes = append(sizes, size, size+size/2)
	}
	return sizes
}

// streamOptions are the options that rstream and riostream have in common. Unlike librdmacm's
// programs they take several sizes in -S. Each size uses a new connection, because the peer is one
// process per size. Iterations and transfers apply to each size. A client uses the next port for
// each size: on the same port it might reach the previous process, which is about to end.
type streamOptions struct {
	server, bind, port string
	sizes              []int
	iterations         int
	transfers          int
	sockets            bool // use TCP, to compare this program with the peer without RDMA
}

func (o *streamOptions) define(f *flag.FlagSet) {
	f.StringVar(&o.server, "s", "", "server address; the server has none")
	f.StringVar(&o.bind, "b", "", "address to listen on")
	f.StringVar(&o.port, "p", "7471", "port")
	f.IntVar(&o.iterations, "I", 1, "iterations")
	f.IntVar(&o.transfers, "C", 1000, "transfers of an iteration")
	o.sizes = []int{1000}
	f.Func("S", "sizes with commas between, or all", func(s string) (err error) {
		if s == "all" {
			o.sizes = rstreamSizes()
			return nil
		}
		o.sizes = nil
		for _, word := range strings.Split(s, ",") {
			n, err := strconv.Atoi(word)
			if err != nil || n < 1 {
				return fmt.Errorf("size %q", word)
			}
			o.sizes = append(o.sizes, n)
		}
		return nil
	})
	f.Func("T", "s: TCP sockets; v is always so: verify", func(s string) error {
		o.sockets = o.sockets || s == "s"
		return nil
	})
}

// each runs a test for every size, each on its own connection.
func (o *streamOptions) each(ctx context.Context, one func(c net.Conn, size int) error) (err error) {
	var l net.Listener
	if o.server == "" {
		if l, err = listenStream(join(o.bind, o.port), o.sockets); err != nil {
			return err
		}
		defer l.Close()
		listening()
	}
	for i, size := range o.sizes {
		c, err := o.connect(ctx, l, i)
		if err != nil {
			return fmt.Errorf("size %d: %w", size, err)
		}
		fmt.Println("connected with", c.RemoteAddr())
		if deadline, ok := ctx.Deadline(); ok {
			c.SetDeadline(deadline)
		}
		began := time.Now()
		if err := errors.Join(one(c, size), ended(c)); err != nil {
			c.Close()
			return fmt.Errorf("size %d: %w", size, err)
		}
		if err := c.Close(); err != nil {
			return fmt.Errorf("size %d: close: %w", size, err)
		}
		fmt.Printf("size %d: %d transfers each way in %v\n", size, o.iterations*o.transfers, time.Since(began).Round(time.Microsecond))
	}
	return nil
}

// connect accepts or dials a connection. It dials again while the peer does not listen yet.
func (o *streamOptions) connect(ctx context.Context, l net.Listener, i int) (net.Conn, error) {
	if l != nil {
		return l.Accept()
	}
	port, err := strconv.Atoi(o.port)
	if err != nil {
		return nil, err
	}
	addr := join(o.server, strconv.Itoa(port+i))
	for limit := time.Now().Add(10 * time.Second); ; {
		c, err := dialStream(ctx, addr, o.sockets)
		if err == nil || time.Now().After(limit) {
			return c, err
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// ended shuts the connection down and checks that the peer sends nothing after the test.
func ended(c net.Conn) error {
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		if err := half.CloseWrite(); err != nil {
			return fmt.Errorf("close for writing: %w", err)
		}
	}
	n, err := c.Read(make([]byte, 1))
	if n != 0 || !errors.Is(err, io.EOF) {
		return fmt.Errorf("expected the end of the stream, found %d bytes and %w", n, err)
	}
	return nil
}

func rstream(ctx context.Context, f *flag.FlagSet, args []string) error {
	var o streamOptions
	o.define(f)
	f.Parse(args)
	return o.each(ctx, func(c net.Conn, size int) error {
		s := newStream(c, max(size, syncSize))
		send, receive := s.receive, s.send
		if o.server != "" {
			send, receive = s.send, s.receive
		}
		return s.run(send, receive, size, o)
	})
}

// syncSize is the length of the message that each side sends before a test begins.
const syncSize = 16

// A stream sends and checks bytes that count up, separately in each direction.
type stream struct {
	net.Conn
	out, in  byte
	buf      []byte
	expected []byte
}

func newStream(c net.Conn, size int) *stream {
	return &stream{Conn: c, buf: make([]byte, size), expected: make([]byte, size)}
}

// run transfers the data. A client passes send first, a server receive.
func (s *stream) run(first, second func(int) error, size int, o streamOptions) error {
	if err := errors.Join(first(syncSize), second(syncSize)); err != nil {
		return err
	}
	for range o.iterations {
		for _, do := range []func(int) error{first, second} {
			for range o.transfers {
				if err := do(size); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func count(buf []byte, from *byte) {
	for i := range buf {
		buf[i] = *from
		*from++
	}
}

func (s *stream) send(size int) error {
	count(s.buf[:size], &s.out)
	_, err := s.Write(s.buf[:size])
	return err
}

func (s *stream) receive(size int) error {
	if n, err := io.ReadFull(s, s.buf[:size]); err != nil {
		return fmt.Errorf("after %d of %d bytes: %w", n, size, err)
	}
	count(s.expected[:size], &s.in)
	if !slices.Equal(s.buf[:size], s.expected[:size]) {
		return fmt.Errorf("the %d bytes received are not those that were sent", size)
	}
	return nil
}
