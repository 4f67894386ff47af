package cma_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"softrdma/internal/adapter"
	"softrdma/internal/cm"
	"softrdma/internal/cma"
	"softrdma/internal/cmid"
	"softrdma/internal/simnet"
	"softrdma/internal/simnet/rig"
)

// A computer is a Manager over devices on the simulated network, with one channel.
// It is also the Manager's host.
type computer struct {
	*testing.T
	net  *simnet.Network
	m    *cma.Manager
	ch   *cma.EventChannel
	devs []*rig.Host
	uses map[*adapter.Device]int
	fail error  // if set, the result of Reach and Addresses
	qpn  uint32 // queue pair number of the last request

	pathMTU int // the result of PathMTU
}

func (c *computer) Reach(dst netip.Addr, o cma.DeviceOptions) (cma.Lease, error) {
	if c.fail != nil {
		return nil, c.fail
	}
	for _, d := range c.devs {
		if a := d.Dev.Local().Addr(); a.Is4() == dst.Is4() {
			return c.Acquire(a, o)
		}
	}
	return nil, fmt.Errorf("network of %v is unreachable", dst)
}

var errNoSuchDevice = errors.New("no such device")

func (c *computer) Routed(netip.Addr) error     { return c.fail }
func (c *computer) PathMTU(netip.Addr, int) int { return c.pathMTU }

func (c *computer) Acquire(local netip.Addr, o cma.DeviceOptions) (cma.Lease, error) {
	for _, d := range c.devs {
		if d.Dev.Local() == o.Place(local) && d.Dev.Closed() == nil {
			c.uses[d.Dev]++
			return lease{d.Dev, func() { c.uses[d.Dev]-- }}, nil
		}
	}
	return nil, fmt.Errorf("%w at %v", errNoSuchDevice, local)
}

// A lease is a cma.Lease that calls release when it ends.
type lease struct {
	dev     *adapter.Device
	release func()
}

func (l lease) Device() *adapter.Device { return l.dev }
func (l lease) Release()                { l.release() }
func (l lease) Fabric() cma.Fabric      { return nil }

func (c *computer) Addresses() (list []netip.Addr, err error) {
	for _, d := range c.devs {
		list = append(list, d.Dev.Local().Addr())
	}
	return list, c.fail
}

// A world is a client and a server on one simulated network.
type world struct {
	*testing.T
	net            *simnet.Network
	client, server *computer
	goroutines     int
}

const (
	client4 = "10.0.0.1"
	server4 = "10.0.0.2"
	client6 = "fd00::1"
	server6 = "fd00::2"
	second4 = "10.0.1.2" // of the server
)

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, net: simnet.New(7), goroutines: runtime.NumGoroutine()}
	w.client = w.computer(client4, client6)
	w.server = w.computer(server4, second4, server6)
	return w
}

func (w *world) computer(addrs ...string) *computer {
	w.Helper()
	c := &computer{T: w.T, net: w.net, uses: make(map[*adapter.Device]int)}
	for _, a := range addrs {
		h, err := rig.Open(w.net, netip.AddrPortFrom(netip.MustParseAddr(a), 4791), simnet.LinkConfig{}, adapter.Config{})
		must(w, err)
		c.devs = append(c.devs, h)
	}
	c.m = cma.New(c, cma.Config{Manual: true, Random: w.net.Random(uint64(len(addrs))).Uint32})
	w.net.Drive(c.m)
	c.ch = c.m.NewChannel()
	return c
}

// end closes the channels of both computers and reports all objects that are left.
func (w *world) end() {
	w.Helper()
	for _, c := range []*computer{w.client, w.server} {
		must(w, c.ch.Close())
		if n := c.m.Count(); n != (cma.Counts{}) {
			w.Errorf("left over: %+v", n)
		}
		for d, n := range c.uses {
			if n != 0 {
				w.Errorf("device %v is used %d times", d.Local(), n)
			}
		}
	}
	w.net.Sleep(10 * time.Minute) // retries and time waits
	for _, c := range []*computer{w.client, w.server} {
		for _, d := range c.devs {
			_ = d.Dev.CM(func(m *cm.Manager, _ time.Duration) {
				if n := m.Count(); n != (cm.Count{}) {
					w.Errorf("left over at %v: %+v", d.Dev.Local(), n)
				}
			})
			if d.Dev.Closed() == nil {
				must(w, d.Close())
			}
		}
		c.m.Wait()
	}
	settle(w, w.goroutines)
}

// settle waits until there are no more goroutines than before, because a goroutine
// that is done may not have ended yet.
func settle(t testing.TB, before int) {
	t.Helper()
	for range 1000 {
		if runtime.NumGoroutine() <= before {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("%d goroutines, %d before", runtime.NumGoroutine(), before)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// next returns the next event of a channel in virtual time and checks its type.
func next(t testing.TB, c *computer, ch *cma.EventChannel, want cmid.EventType) (e cma.Event) {
	t.Helper()
	err := c.net.Run(func() (ok bool) { e, ok = ch.Poll(); return ok }, 20*time.Minute)
	if err != nil {
		t.Fatalf("waiting for %v: %v", want, err)
	}
	if e.Type != want {
		t.Fatalf("event %v (status %d, %v), expected %v", e.Type, e.Status, e.Err, want)
	}
	if (e.Status != 0) != (e.Err != nil) {
		t.Errorf("%v: status %d, but error %v", e.Type, e.Status, e.Err)
	}
	return e
}

func (c *computer) next(want cmid.EventType) cma.Event {
	c.Helper()
	return next(c, c, c.ch, want)
}

// quiet checks that no event is queued and that none arrives for some time.
func (c *computer) quiet(d time.Duration) {
	c.Helper()
	c.net.Sleep(d)
	if e, ok := c.ch.Poll(); ok {
		c.Errorf("unexpected event %v (status %d, %v)", e.Type, e.Status, e.Err)
	}
}

func (c *computer) id(space cmid.PortSpace) *cma.ID {
	c.Helper()
	id, err := c.ch.NewID(space, 0)
	must(c, err)
	return id
}

// listen makes a listener on an address and port 7471.
func (c *computer) listen(space cmid.PortSpace, addr string, backlog int) *cma.ID {
	c.Helper()
	id := c.id(space)
	must(c, id.Bind(at(addr)))
	must(c, id.Listen(backlog))
	return id
}

func at(addr string) netip.AddrPort { return netip.AddrPortFrom(netip.MustParseAddr(addr), 7471) }

// resolved returns an id with a known route to port 7471 of an address.
func (c *computer) resolved(space cmid.PortSpace, addr string) *cma.ID {
	c.Helper()
	id := c.id(space)
	c.resolve(id, addr)
	return id
}

func (c *computer) resolve(id *cma.ID, addr string) {
	c.Helper()
	must(c, id.ResolveAddr(netip.AddrPort{}, at(addr)))
	c.next(cmid.EventAddrResolved)
	must(c, id.ResolveRoute())
	c.next(cmid.EventRouteResolved)
}

// connecting returns an id that has sent its request, with its own queue pair
// number.
func (c *computer) connecting(space cmid.PortSpace, addr string) *cma.ID {
	c.Helper()
	id := c.resolved(space, addr)
	c.qpn++
	must(c, id.Connect(&cmid.ConnParam{QPN: 0x100 + c.qpn, RetryCount: 7, RNRRetryCount: 7}))
	return id
}

// requested returns a client's id and the server's new id, both in CONNECT.
func (w *world) requested() (client, server *cma.ID) {
	w.Helper()
	client = w.client.connecting(cmid.PortSpaceTCP, server4)
	return client, w.server.next(cmid.EventConnectRequest).ID
}

// established returns both ends of a connection without queue pairs.
func (w *world) established() (client, server *cma.ID) {
	w.Helper()
	client, server = w.requested()
	must(w, server.Accept(&cmid.ConnParam{QPN: 0x202, RNRRetryCount: 7}))
	w.client.next(cmid.EventConnectResponse)
	must(w, client.Accept(nil))
	w.server.next(cmid.EventEstablished)
	return client, server
}

// cut makes all links of a computer lose everything.
func (c *computer) cut() { c.loss(1) }

func (c *computer) heal() { c.loss(0) }

func (c *computer) loss(p float64) {
	for _, d := range c.devs {
		d.Link.SetFaults(simnet.Faults{Loss: p}, simnet.Faults{})
	}
}

// over is a context that is done.
var over = func() context.Context {
	c, cancel := context.WithCancel(context.Background())
	cancel()
	return c
}()
