package verbs

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"softrdma/internal/adapter"
	"softrdma/internal/host"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
)

// Port is the UDP port of RoCE v2 (annex A17.3.2.2).
const Port = ib.UDPPort

// Sentinels for errors.Is.
var (
	ErrBusy      = adapter.ErrBusy      // the object is in use by others
	ErrClosed    = adapter.ErrClosed    // the device is closed
	ErrDestroyed = adapter.ErrDestroyed // the object was destroyed
	ErrOverflow  = adapter.ErrOverflow  // a completion queue overflowed
)

// DefaultSpin is how long a device looks for packets before it sleeps.
const DefaultSpin = 20 * time.Microsecond

// A Config tunes a device. The zero value is right for most programs.
type Config struct {
	// Spin is how long the device's goroutine looks for packets before it
	// sleeps in the kernel: 0 means DefaultSpin, negative not at all.
	Spin time.Duration

	// ReceiveBuffer and SendBuffer are the wished sizes of the socket's
	// buffers in bytes, 0 for 4 MiB. The system may grant less. With iWARP they
	// are each connection's, and 0 lets the system adapt them.
	ReceiveBuffer, SendBuffer int

	// Window bounds the bytes in flight of one queue pair; 0 means half of the
	// granted receive buffer, at least 64 KiB and at most 1 MiB.
	Window int

	// MTU bounds the port's active MTU: 256, 512, 1024, 2048 or 4096; 0 takes
	// the largest that the interface carries.
	MTU int
}

// A Device is an open RDMA device with one port, on one local address.
type Device struct {
	a        *adapter.Device
	choice   host.Choice
	protocol Protocol
	guid     uint64
	gids     []GIDEntry
	zone     string
	spin     time.Duration

	spinning atomic.Bool // a waiter spins

	watcher *host.Watcher // nil where the system has none

	mu       sync.Mutex
	captures []*Capture
}

// Open opens a device by the name of a network interface ("eth0", "lo"), by a
// local address ("127.0.0.2", "::1", "fe80::1%eth0"), or by "" for the best
// routable address of this machine, which Device.Explain tells the reason of.
//
// An address may have a UDP port ("[::1]:4792") for a second device on the
// same address; other implementations of RoCE v2 use port 4791 alone. One
// address and port is one device: opening it twice fails.
//
// A name behind "iwarp:" ("iwarp:eth0", "iwarp:127.0.0.2", "iwarp:") opens an
// iWARP device instead, which speaks to Linux's siw and other RNICs over TCP.
// Programs are the same but for what iWARP does not have, which is refused with
// errors.ErrUnsupported: queue pairs other than RC, hence multicast; SENDs with
// immediate data; atomics and WRITEs with immediate data where the peer lacks
// RFC 7306, which softrdma has and siw has not; and connecting queue pairs
// otherwise than by package rdmacm. A SEND must find a receive posted: iWARP
// cannot wait for one. iWARP wants Linux.
func Open(name string, cfg Config) (*Device, error) {
	choice, protocol, err := choose(name)
	if err != nil {
		return nil, fmt.Errorf("open RDMA device %q: %w", name, err)
	}
	mtu := host.MTUFor(choice.Interface.MTU)
	if cfg.MTU != 0 {
		if err := checkMTU(cfg.MTU, mtu); err != nil {
			return nil, fmt.Errorf("open RDMA device %q: %w", name, err)
		}
		mtu = cfg.MTU
	}
	vacate(choice.Addr)
	l, err := openLink(protocol, &choice, &cfg)
	if err != nil {
		return nil, fmt.Errorf("open RDMA device %q: %w", name, err)
	}
	spin := cfg.Spin
	switch {
	case spin == 0:
		spin = DefaultSpin
	case spin < 0:
		spin = 0
	}
	guid := host.GUID(choice.Interface, choice.Addr.Addr())
	d := &Device{
		a:      adapter.Open(adapter.Config{Link: l, Spin: spin, Window: cfg.Window, MTU: mtu, GUID: guid}),
		choice: choice, protocol: protocol, spin: spin, guid: guid, zone: choice.Addr.Addr().Zone(),
	}
	d.gids = gidTable(protocol, choice)
	d.watch()
	opened.add(d)
	return d, nil
}

func checkMTU(want, max int) error {
	switch want {
	case 256, 512, 1024, 2048, 4096:
	default:
		return fmt.Errorf("MTU: expected 256, 512, 1024, 2048 or 4096, found %d", want)
	}
	if want > max {
		return fmt.Errorf("MTU: the interface carries at most %d, found %d", max, want)
	}
	return nil
}

// Name is the name of the network interface.
func (d *Device) Name() string { return d.choice.Interface.Name }

// Addr is the local address and UDP port that peers send to. The port of an
// iWARP device is 0: each connection has a TCP port of its own.
func (d *Device) Addr() netip.AddrPort { return d.choice.Addr }

// Explain tells how the device's address was chosen, a sentence a line.
func (d *Device) Explain() []string { return d.choice.Why }

// Close ends the device with all its objects. Waiting calls return ErrClosed.
// Captures are finished; Close returns the first error of one. When it returns
// the device no longer touches registered memory, and holds none of
// AllocMemory's. A second Close waits for the first.
func (d *Device) Close() error {
	opened.remove(d)
	d.unwatch()
	err := d.a.Close()
	releaseDevice(d)
	d.mu.Lock()
	captures := d.captures
	d.captures = nil
	d.mu.Unlock()
	for _, c := range captures {
		err = errors.Join(err, c.Close())
	}
	return err
}

// Counts tells how many objects of each kind exist, for tests of leaks.
func (d *Device) Counts() adapter.Counts { return d.a.Count() }

// Counters gives each named reason with how often it was given, those that
// were given at least once.
func (d *Device) Counters() iter.Seq2[string, uint64] {
	return func(yield func(string, uint64) bool) {
		for r := reason.None + 1; r < reason.Count; r++ {
			if n := d.a.Trace.Counter(r); n != 0 && !yield(r.String(), n) {
				return
			}
		}
	}
}

// An Event is an asynchronous event (IBTA 11.6.3). At most one of QP, CQ and
// SRQ is set: what it concerns. A device's or port's event has none.
type Event struct {
	Type EventType
	QP   *QP
	CQ   *CQ
	SRQ  *SRQ

	why reason.Detail
}

// String names the event, what it concerns and why.
func (e Event) String() string {
	s := e.Type.String()
	switch {
	case e.QP != nil:
		s += fmt.Sprintf(" on QP %#06x", e.QP.Number())
	case e.CQ != nil:
		s += " on a CQ"
	case e.SRQ != nil:
		s += " on an SRQ"
	}
	if e.why.Reason != reason.None {
		s += ": " + e.why.String()
	}
	return s
}

// NextEvent waits for the next asynchronous event of the device or of its
// port, queue pairs, completion queues and shared receive queues.
func (d *Device) NextEvent(ctx context.Context) (Event, error) {
	a, err := d.a.NextEvent(ctx)
	if err != nil {
		return Event{}, err
	}
	e := Event{Type: EventType(a.Type), why: a.Detail}
	switch x := a.Element.(type) {
	case *adapter.QP:
		e.QP, _ = x.Owner.(*QP)
	case *adapter.CQ:
		e.CQ, _ = x.Owner.(*CQ)
	case *adapter.SRQ:
		e.SRQ, _ = x.Owner.(*SRQ)
	}
	return e, nil
}
