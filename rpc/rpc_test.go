package rpc_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"sync"
	"syscall"
	"testing"
	"time"

	"softrdma/rpc"
	"softrdma/verbs"
)

// protocols are the prefixes of the devices' names.
var protocols = map[string]string{"RoCE": "", "iWARP": "iwarp:"}

// openDevice opens a device on an unused loopback address.
func openDevice(t testing.TB, prefix string) *verbs.Device {
	t.Helper()
	for {
		dev, err := verbs.Open(prefix+fmt.Sprintf("127.%d.%d.%d", 1+rand.IntN(250), rand.IntN(250), 1+rand.IntN(250)), verbs.Config{})
		if err == nil {
			t.Cleanup(func() {
				if err := dev.Close(); err != nil {
					t.Error(err)
				}
			})
			return dev
		}
		if !errors.Is(err, syscall.EADDRINUSE) {
			t.Fatal(err)
		}
	}
}

func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// A world is a server and what a client needs to reach it.
type world struct {
	t       testing.TB
	srv     *rpc.Server
	address netip.AddrPort
	dev     *verbs.Device // of clients
	server  *verbs.Device
}

// serve starts a server with the service "test".
func serve(t testing.TB, prefix string, cfg rpc.ServerConfig, methods ...*rpc.Procedure) *world {
	t.Helper()
	w := &world{t: t, dev: openDevice(t, prefix), server: openDevice(t, prefix)}
	w.start(cfg, netip.AddrPort{}, methods...)
	return w
}

// start starts a server on the world's device.
func (w *world) start(cfg rpc.ServerConfig, at netip.AddrPort, methods ...*rpc.Procedure) {
	w.t.Helper()
	cfg.Device = w.server
	srv, err := rpc.NewServer(cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		if err := srv.Close(); err != nil && !errors.Is(err, rpc.ErrClosed) {
			w.t.Error(err)
		}
	})
	if err := srv.Register("test", methods...); err != nil {
		w.t.Fatal(err)
	}
	if !at.IsValid() {
		at = netip.AddrPortFrom(w.server.Addr().Addr(), 0)
	}
	address, err := srv.Listen(at.String())
	if err != nil {
		w.t.Fatal(err)
	}
	w.srv, w.address = srv, address
}

// dial makes a client.
func (w *world) dial(cfg rpc.ClientConfig) *rpc.Client {
	w.t.Helper()
	cfg.Device = w.dev
	cfg.RemoteUDPPort = w.server.Addr().Port()
	c, err := rpc.Dial(within(w.t), w.address.String(), cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		if err := c.Close(); err != nil && !errors.Is(err, rpc.ErrClosed) {
			w.t.Error(err)
		}
	})
	return c
}

// echo answers with the body.
func echo(run rpc.Run) *rpc.Procedure {
	p := rpc.Func("echo", rpc.Raw, func(_ context.Context, c *rpc.Call) error {
		b, err := c.Reserve(len(c.Body()))
		copy(b, c.Body())
		return err
	})
	p.Run = run
	return p
}

func each(t *testing.T, f func(t *testing.T, prefix string)) {
	for name, prefix := range protocols {
		t.Run(name, func(t *testing.T) { f(t, prefix) })
	}
}

func random(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rand.Uint32())
	}
	return b
}

func TestBodiesOfAllSizesReturn(t *testing.T) {
	each(t, func(t *testing.T, prefix string) {
		w := serve(t, prefix, rpc.ServerConfig{Inline: 1000}, echo(rpc.RunAuto))
		c := w.dial(rpc.ClientConfig{Inline: 2000})
		m := c.Method("test/echo", nil)
		for _, n := range []int{0, 1, 999, 1000, 1001, 2000, 2001, 70000, 5 << 20} {
			data := random(n)
			got, err := m.Bytes(within(t), data, nil)
			if err != nil || !bytes.Equal(got, data) {
				t.Fatalf("%d bytes: %d bytes returned, %v", n, len(got), err)
			}
			in, err := c.Buffer(n)
			if err != nil {
				t.Fatal(err)
			}
			copy(in.Bytes(), data)
			out, err := m.Buffer(within(t), in)
			if err != nil || !bytes.Equal(out.Bytes(), data) {
				t.Fatalf("%d bytes in a buffer: %v", n, err)
			}
			in.Release()
			out.Release()
		}
	})
}

type point struct{ X, Y int }

func sum(codec rpc.Codec) *rpc.Procedure {
	return rpc.Unary("sum", codec, func(_ context.Context, in *[]point) (*point, error) {
		out := new(point)
		for _, p := range *in {
			out.X += p.X
			out.Y += p.Y
		}
		return out, nil
	})
}

func TestCodecsCarryValues(t *testing.T) {
	for _, codec := range []rpc.Codec{rpc.JSON, rpc.Gob} {
		t.Run(codec.Name(), func(t *testing.T) {
			w := serve(t, "", rpc.ServerConfig{}, sum(codec))
			m := w.dial(rpc.ClientConfig{}).Method("test/sum", codec)
			for _, n := range []int{1, 2, 5000} { // the last one is longer than a frame
				in := make([]point, n)
				for i := range in {
					in[i] = point{i, -i}
				}
				var out point
				if err := m.Call(within(t), in, &out); err != nil || out != (point{n * (n - 1) / 2, -n * (n - 1) / 2}) {
					t.Errorf("%d points: %v, %v", n, out, err)
				}
			}
		})
	}
}

func TestManyCallsOfManyGoroutinesEachGetTheirAnswer(t *testing.T) {
	each(t, func(t *testing.T, prefix string) {
		for _, run := range []rpc.Run{rpc.RunAuto, rpc.RunReceiver, rpc.RunGoroutine} {
			w := serve(t, prefix, rpc.ServerConfig{}, echo(run))
			c := w.dial(rpc.ClientConfig{Calls: 8, Connections: 3})
			m := c.Method("test/echo", nil)
			var all sync.WaitGroup
			for g := range 32 {
				all.Go(func() {
					var got []byte
					for i := range 50 {
						data := fmt.Appendf(nil, "%d of %d", i, g)
						if i%10 == 0 {
							data = append(data, make([]byte, 9000)...)
						}
						var err error
						if got, err = m.Bytes(within(t), data, got[:0]); err != nil || !bytes.Equal(got, data) {
							t.Errorf("%.20q: %.20q, %v", data, got, err)
							return
						}
					}
				})
			}
			all.Wait()
		}
	})
}
