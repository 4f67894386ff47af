package msg_test

import (
	"bytes"
	"context"
	"errors"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"softrdma/msg"
	"softrdma/msg/internal/format"
	"softrdma/rdmacm"
)

func listen(t testing.TB, w *msg.Worker) *msg.Listener {
	t.Helper()
	l, err := w.Listen(":0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// dial dials with both sides' private data, and returns both endpoints.
func dial(t testing.TB, a *msg.Worker, l *msg.Listener, request, reply []byte) (client, server *msg.Endpoint) {
	t.Helper()
	accepted := make(chan *msg.Endpoint, 1)
	go func() {
		r, err := l.Request(within(t))
		if err != nil {
			t.Error(err)
			close(accepted)
			return
		}
		if !bytes.Equal(r.PrivateData(), request) || r.RemoteAddr().Addr() != a.Device().Addr().Addr() {
			t.Errorf("request with %q from %v, expected %q from %v", r.PrivateData(), r.RemoteAddr(), request, a.Device().Addr())
		}
		e, err := r.Accept(within(t), reply)
		if err != nil {
			t.Error(err)
		}
		accepted <- e
	}()
	client, err := a.Dial(within(t), l.Addr().String(), request)
	if err != nil {
		t.Fatal(err)
	}
	if server = next(t, accepted); server == nil {
		t.FailNow()
	}
	return client, server
}

// Both ends of a connection by host and port send messages of all kinds.
func TestDialedEndpointsCommunicateInBothDirections(t *testing.T) {
	each(t, msg.Config{Eager: 100}, func(t *testing.T, a, b *msg.Worker) {
		l := listen(t, b)
		request, reply := random(msg.MaxPrivateRequest), random(msg.MaxPrivateAccept)
		client, server := dial(t, a, l, request, reply)
		if !bytes.Equal(client.PrivateData(), reply) || !bytes.Equal(server.PrivateData(), request) {
			t.Error("other private data arrives")
		}
		if client.RemoteAddr() != l.Addr() {
			t.Errorf("client's peer is %v, expected %v", client.RemoteAddr(), l.Addr())
		}
		for _, c := range []struct {
			from, to *msg.Endpoint
			at       *msg.Worker
		}{{client, server, b}, {server, client, a}} {
			all := catch(c.at, idFirst)
			for _, n := range []int{1, 100, 5000} {
				data, buf := random(n), make([]byte, n)
				s := []*msg.Request{c.from.Send(1, msg.Buffers{data}, &msg.SendOptions{Sync: true}), c.from.SendActive(idFirst, nil, msg.Buffers{data}, nil), c.from.SendStream(msg.Buffers{data})}
				wait(t, c.at.Receive(msg.Buffers{buf}, 1, msg.All))
				if got := next(t, all); !bytes.Equal(buf, data) || !bytes.Equal(got.data, data) || got.from != c.to {
					t.Errorf("%d bytes: same tagged %v, same active %v, same endpoint %v", n, bytes.Equal(buf, data), bytes.Equal(got.data, data), got.from == c.to)
				}
				wait(t, c.to.ReceiveStream(msg.Buffers{buf}, &msg.StreamOptions{Full: true}))
				for _, r := range s {
					wait(t, r)
				}
			}
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		r := b.Receive(nil, 2, msg.All) // the connection continues without the listener
		wait(t, client.Send(2, nil, nil))
		wait(t, r)
	})
}

// A listener has the address of the worker's device, also if none is named, and no other. A port has one.
func TestListenersHaveTheDevicesAddress(t *testing.T) {
	each(t, msg.Config{}, func(t *testing.T, a, b *msg.Worker) {
		own := b.Device().Addr().Addr()
		for _, host := range []string{"", "0.0.0.0", "[::]", strings.TrimSuffix(netip.AddrPortFrom(own, 0).String(), ":0")} {
			l, err := b.Listen(host + ":0")
			if err != nil {
				t.Fatalf("%q: %v", host, err)
			}
			if l.Addr().Addr() != own || l.Addr().Port() == 0 {
				t.Errorf("%q: the listener is at %v, expected a port of %v", host, l.Addr(), own)
			}
			dial(t, a, l, nil, nil)
			if _, err := b.Listen(l.Addr().String()); !errors.Is(err, rdmacm.ErrAddrInUse) {
				t.Errorf("a second listener at %v: %v, expected %v", l.Addr(), err, rdmacm.ErrAddrInUse)
			}
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		}
		for _, addr := range []string{"192.0.2.1:0", "no port", a.Device().Addr().Addr().String()} {
			if _, err := b.Listen(addr); err == nil {
				t.Errorf("listens at %q", addr)
			}
		}
	})
}

func TestRejectedRequestIsNamedAndTheNextIsAccepted(t *testing.T) {
	each(t, msg.Config{}, func(t *testing.T, a, b *msg.Worker) {
		l := listen(t, b)
		why := random(msg.MaxPrivateReject)
		go func() {
			r, err := l.Request(within(t))
			if err == nil {
				err = r.Reject(why)
			}
			if err != nil {
				t.Error(err)
			}
		}()
		_, err := a.Dial(within(t), l.Addr().String(), nil)
		var rejected *msg.RejectedError
		if !errors.As(err, &rejected) || !bytes.Equal(rejected.PrivateData, why) {
			t.Errorf("%v, expected a rejection", err)
		}
		dial(t, a, l, []byte("again"), nil)
	})
}

// What is no request of a worker is refused with its reason, and the listener continues.
func TestListenerRefusesOthersAndGoesOn(t *testing.T) {
	refused := make(chan error, 10)
	c := msg.Config{Refused: func(_ netip.AddrPort, err error) { refused <- err }}
	each(t, c, func(t *testing.T, a, b *msg.Worker) {
		l := listen(t, b)
		accepted := make(chan error, 1)
		go func() {
			_, err := l.Accept(within(t))
			accepted <- err
		}()
		greeting := append(bytes.Clone(a.Address()[:len(a.Address())-format.RailLen]), format.ToListener, 0) // length
		other, long, byAddress := bytes.Clone(greeting), bytes.Clone(greeting), bytes.Clone(greeting)
		other[versionAt]++
		long[len(long)-1] = 255
		byAddress[len(long)-2] = 0
		for _, c := range []struct {
			request []byte
			want    error
		}{
			{[]byte("something else"), msg.ErrAddress},
			{other, msg.ErrVersion},
			{long, msg.ErrAddress},
			{byAddress, msg.ErrStale},
		} {
			d := rdmacm.Dialer{Device: a.Device(), Param: rdmacm.ConnParam{PrivateData: c.request}}
			if _, err := d.Dial(within(t), l.Addr().String()); err == nil {
				t.Errorf("%q is accepted", c.request)
			}
			if err := next(t, refused); !errors.Is(err, c.want) {
				t.Errorf("%q: %v, expected %v", c.request, err, c.want)
			}
		}
		// A request for a listener at the address of a worker.
		at, udp := msg.ListensAt(b.Address())
		d := rdmacm.Dialer{Device: a.Device(), RemoteUDPPort: udp, Param: rdmacm.ConnParam{PrivateData: greeting}}
		if _, err := d.Dial(within(t), at); err == nil {
			t.Error("a worker's address accepts a request for a listener")
		}
		if err := next(t, refused); !errors.Is(err, msg.ErrAddress) {
			t.Errorf("%v, expected %v", err, msg.ErrAddress)
		}
		if _, err := a.Dial(within(t), at, nil); !errors.Is(err, msg.ErrNoListener) {
			t.Errorf("dial of a worker's address: %v, expected %v", err, msg.ErrNoListener)
		}
		next(t, refused)
		if _, err := a.Dial(within(t), l.Addr().String(), nil); err != nil {
			t.Error(err)
		}
		if err := next(t, accepted); err != nil {
			t.Error(err)
		}
	})
}

func TestDialWithoutAListenerIsNamed(t *testing.T) {
	each(t, msg.Config{}, func(t *testing.T, a, b *msg.Worker) {
		l := listen(t, b)
		addr := l.Addr().String()
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := a.Dial(within(t), addr, nil); !errors.Is(err, msg.ErrNoListener) {
			t.Errorf("%v, expected %v", err, msg.ErrNoListener)
		}
		if _, err := l.Accept(within(t)); !errors.Is(err, msg.ErrClosed) {
			t.Errorf("accept: %v, expected %v", err, msg.ErrClosed)
		}
		// A program that is no worker accepts.
		other, err := rdmacm.Listen(netip.AddrPortFrom(b.Device().Addr().Addr(), 0).String(), rdmacm.ListenConfig{Device: b.Device()})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = other.Close() }()
		go func() {
			if c, err := other.Accept(within(t)); err == nil {
				<-c.Done()
				_ = c.Close()
			}
		}()
		if _, err := a.Dial(within(t), other.Addr().String(), nil); !errors.Is(err, msg.ErrAddress) {
			t.Errorf("dial of another program: %v, expected %v", err, msg.ErrAddress)
		}
		for _, n := range []int{msg.MaxPrivateRequest + 1, 1000} {
			if _, err := a.Dial(within(t), addr, make([]byte, n)); !errors.Is(err, msg.ErrPrivateData) {
				t.Errorf("%d bytes of private data: %v, expected %v", n, err, msg.ErrPrivateData)
			}
		}
	})
}

// Calls that wait end when their worker closes, and a request that waits is answered.
func TestCloseOfAWorkerEndsDialAndAccept(t *testing.T) {
	each(t, msg.Config{}, func(t *testing.T, a, b *msg.Worker) {
		l := listen(t, b)
		dialed, accepted := make(chan error, 1), make(chan error, 1)
		go func() {
			_, err := a.Dial(within(t), l.Addr().String(), nil)
			dialed <- err
		}()
		r, err := l.Request(within(t))
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			_, err := l.Accept(within(t))
			accepted <- err
		}()
		if err := a.Close(); err != nil {
			t.Error(err)
		}
		if err := next(t, dialed); !errors.Is(err, msg.ErrClosed) {
			t.Errorf("dial: %v, expected %v", err, msg.ErrClosed)
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		if err := next(t, accepted); !errors.Is(err, msg.ErrClosed) {
			t.Errorf("accept: %v, expected %v", err, msg.ErrClosed)
		}
		if _, err := r.Accept(within(t), nil); !errors.Is(err, msg.ErrClosed) {
			t.Errorf("accept of an earlier request: %v, expected %v", err, msg.ErrClosed)
		}
		if _, err := b.Listen(":0"); !errors.Is(err, msg.ErrClosed) {
			t.Errorf("listen: %v, expected %v", err, msg.ErrClosed)
		}
		if _, err := b.Dial(within(t), l.Addr().String(), nil); !errors.Is(err, msg.ErrClosed) {
			t.Errorf("dial of a closed worker: %v, expected %v", err, msg.ErrClosed)
		}
	})
}

// Both ends close at the same time, in each way, again and again. Nothing hangs, and only what was
// not received is lost.
func TestBothEndsCloseAtTheSameTime(t *testing.T) {
	each(t, msg.Config{Eager: 100}, func(t *testing.T, a, b *msg.Worker) {
		l := listen(t, b)
		closes := []func(*msg.Endpoint) error{
			func(e *msg.Endpoint) error { return e.Close(within(t)) },
			func(e *msg.Endpoint) error { e.Abort(); return nil },
		}
		for round := range 20 {
			client, server := dial(t, a, l, nil, nil)
			ends := []*msg.Endpoint{client, server}
			received := []*msg.Request{a.Receive(nil, uint64(round), msg.All), b.Receive(nil, uint64(round), msg.All)}
			for _, e := range ends {
				wait(t, e.Send(uint64(round), nil, nil))
			}
			for _, r := range received {
				wait(t, r)
			}
			var done sync.WaitGroup
			for i, e := range ends {
				done.Go(func() {
					if err := closes[round>>i%2](e); err != nil && !errors.Is(err, msg.ErrPeer) {
						t.Error(err)
					}
				})
			}
			done.Wait()
			for _, e := range ends {
				if _, err := e.Send(1, nil, nil).Wait(within(t)); !errors.Is(err, msg.ErrPeer) {
					t.Errorf("send after close: %v, expected %v", err, msg.ErrPeer)
				}
			}
		}
	})
}

func TestAcceptEndsWithItsContext(t *testing.T) {
	each(t, msg.Config{}, func(t *testing.T, _, b *msg.Worker) {
		l := listen(t, b)
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if _, err := l.Accept(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("%v, expected %v", err, context.Canceled)
		}
	})
}
