package cma_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"softrdma/internal/adapter"
	"softrdma/internal/cma"
	"softrdma/internal/cmid"
	"softrdma/internal/frame"
	"softrdma/internal/frame/rocev2"
	"softrdma/internal/link/udp"
)

// A loopback is a host with devices on real sockets of 127.0.0.0/8, which it opens
// on demand.
type loopback struct {
	mu     sync.Mutex
	source netip.Addr
	open   map[netip.AddrPort]*adapter.Device
	uses   map[*adapter.Device]int
}

// loopbackUDP is the UDP port of the devices, which no other program uses.
const loopbackUDP = 14795

func (h *loopback) Routed(netip.Addr) error                 { return nil }
func (h *loopback) PathMTU(netip.Addr, int) int             { return 0 }
func (h *loopback) Addresses() (list []netip.Addr, _ error) { return []netip.Addr{h.source}, nil }

func (h *loopback) Reach(_ netip.Addr, o cma.DeviceOptions) (cma.Lease, error) {
	return h.Acquire(h.source, o)
}

func (h *loopback) Acquire(local netip.Addr, o cma.DeviceOptions) (cma.Lease, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	at := o.Place(local)
	d := h.open[at]
	if d == nil {
		l, err := udp.Open(at, udp.Config{})
		if err != nil {
			return nil, err
		}
		d = adapter.Open(adapter.Config{Networks: []frame.Network{rocev2.New(l)}})
		h.open[at] = d
	}
	h.uses[d]++
	return lease{d, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.uses[d]--
	}}, nil
}

func (h *loopback) close(t *testing.T) {
	for at, d := range h.open {
		if n := h.uses[d]; n != 0 {
			t.Errorf("device %v is used %d times", at, n)
		}
		must(t, d.Close())
	}
}

func newLoopback(source string) (*loopback, *cma.Manager) {
	h := &loopback{source: netip.MustParseAddr(source), open: make(map[netip.AddrPort]*adapter.Device), uses: make(map[*adapter.Device]int)}
	return h, cma.New(h, cma.Config{})
}

// serve accepts and then ends each request of a channel until the channel is
// closed.
func serve(ch *cma.EventChannel, qpn *atomic.Uint32) error {
	for {
		e, err := ch.Next(context.Background())
		switch {
		case errors.Is(err, cmid.ErrClosed):
			return nil
		case err != nil:
			return err
		}
		switch e.Type {
		case cmid.EventConnectRequest:
			err = e.ID.Accept(&cmid.ConnParam{QPN: qpn.Add(1)})
		case cmid.EventDisconnected:
			err = e.ID.Disconnect()
			e.ID.Destroy()
		case cmid.EventEstablished:
		default:
			err = fmt.Errorf("server: event %v: %w", e.Type, e.Err)
		}
		if err != nil {
			return err
		}
	}
}

// dial makes one connection on its own channel and ends it.
func dial(m *cma.Manager, qpn uint32, server netip.AddrPort) error {
	ch := m.NewChannel()
	defer ch.Close()
	id, err := ch.NewID(cmid.PortSpaceTCP, 0)
	if err != nil {
		return err
	}
	if err := id.SetUDPPorts(loopbackUDP, loopbackUDP); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for _, step := range []struct {
		call func() error
		want cmid.EventType
	}{
		{func() error { return id.ResolveAddr(netip.AddrPort{}, server) }, cmid.EventAddrResolved},
		{id.ResolveRoute, cmid.EventRouteResolved},
		{func() error { return id.Connect(&cmid.ConnParam{QPN: qpn}) }, cmid.EventConnectResponse},
		{func() error { return errors.Join(id.Accept(nil), id.Disconnect()) }, cmid.EventDisconnected},
	} {
		if err := step.call(); err != nil {
			return err
		}
		e, err := ch.Next(ctx)
		if err != nil || e.Type != step.want {
			return fmt.Errorf("expected %v, found %v: %w", step.want, e.Type, errors.Join(err, e.Err))
		}
	}
	return nil
}

// Many goroutines connect at once over real sockets. Each device has its own
// goroutine. In the end no object is left.
func TestConcurrentConnectionsOverSockets(t *testing.T) {
	before := runtime.NumGoroutine()
	serverHost, server := newLoopback("127.6.0.2")
	ch := server.NewChannel()
	l, err := ch.NewID(cmid.PortSpaceTCP, 0)
	must(t, err)
	must(t, l.SetUDPPorts(loopbackUDP, loopbackUDP))
	must(t, l.Bind(at("0.0.0.0")))
	must(t, l.Listen(0))
	var serving, dialing sync.WaitGroup
	var qpn atomic.Uint32
	for range 2 {
		serving.Go(func() {
			if err := serve(ch, &qpn); err != nil {
				t.Error(err)
			}
		})
	}
	clientHost, client := newLoopback("127.6.0.1")
	const dialers, rounds = 8, 25
	for i := range dialers {
		dialing.Go(func() {
			for j := range rounds {
				if err := dial(client, uint32(1+i*rounds+j), at("127.6.0.2")); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	dialing.Wait()
	for range 1000 { // the server may still be destroying its last ids
		if server.Count().IDs == 1 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if n := server.Count(); n.IDs != 1 {
		t.Errorf("server: %+v", n)
	}
	must(t, ch.Close())
	serving.Wait()
	for _, m := range []*cma.Manager{client, server} {
		m.Wait()
		if n := m.Count(); n != (cma.Counts{}) {
			t.Errorf("left over: %+v", n)
		}
	}
	clientHost.close(t)
	serverHost.close(t)
	settle(t, before)
}

// Both ends destroy their ids at random moments, and in the end no object is left.
func TestDestroyAtAnyMomentOverSockets(t *testing.T) {
	before := runtime.NumGoroutine()
	serverHost, server := newLoopback("127.6.0.4")
	clientHost, client := newLoopback("127.6.0.3")
	ch := server.NewChannel()
	l, err := ch.NewID(cmid.PortSpaceTCP, 0)
	must(t, err)
	must(t, l.SetUDPPorts(loopbackUDP, loopbackUDP))
	must(t, l.Bind(at("127.6.0.4")))
	must(t, l.Listen(0))
	var serving, dialing sync.WaitGroup
	var qpn atomic.Uint32
	for range 2 {
		serving.Go(func() {
			for {
				e, err := ch.Next(context.Background())
				switch {
				case err != nil:
					return
				case e.Type == cmid.EventConnectRequest && qpn.Add(1)%4 != 0:
					// An error means that the peer has withdrawn its request.
					_ = e.ID.Accept(&cmid.ConnParam{QPN: qpn.Add(1)})
				case e.Type != cmid.EventEstablished:
					e.ID.Destroy()
				}
			}
		})
	}
	for i := range 8 {
		dialing.Go(func() {
			ch := client.NewChannel()
			defer ch.Close()
			for j := range 40 {
				abandonAfter(t, ch, j%5, uint32(1+i*40+j))
			}
		})
	}
	dialing.Wait()
	must(t, ch.Close())
	serving.Wait()
	for _, m := range []*cma.Manager{client, server} {
		m.Wait()
		if n := m.Count(); n != (cma.Counts{}) {
			t.Errorf("left over: %+v", n)
		}
	}
	clientHost.close(t)
	serverHost.close(t)
	settle(t, before)
}

// abandonAfter starts a connection and destroys its id after some steps.
func abandonAfter(t *testing.T, ch *cma.EventChannel, steps int, qpn uint32) {
	id, err := ch.NewID(cmid.PortSpaceTCP, 0)
	if err != nil {
		t.Error(err)
		return
	}
	defer id.Destroy()
	_ = id.SetUDPPorts(loopbackUDP, loopbackUDP)
	for i, call := range []func() error{
		func() error { return id.ResolveAddr(netip.AddrPort{}, at("127.6.0.4")) },
		id.ResolveRoute,
		func() error { return id.Connect(&cmid.ConnParam{QPN: qpn}) },
		func() error { return id.Accept(nil) },
	} {
		if i == steps {
			return
		}
		if err := call(); err != nil {
			if i < 3 {
				t.Errorf("step %d: %v", i, err)
			}
			return // the peer has withdrawn its reply
		}
		if i == 3 {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		e, err := ch.Next(ctx)
		cancel()
		if err != nil || e.ID != id {
			t.Errorf("step %d: event %v, %v", i, e.Type, err)
			return
		}
		if e.Type != cmid.EventConnectResponse && i == 2 {
			return // rejected
		}
	}
}
