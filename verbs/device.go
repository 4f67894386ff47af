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

	"softrdma/faults"
	"softrdma/internal/adapter"
	"softrdma/internal/allocation"
	"softrdma/internal/host"
	"softrdma/internal/object"
	"softrdma/internal/provider"
	"softrdma/internal/reason"
	"softrdma/internal/registry"
	"softrdma/internal/waiting"
)

// Port is the UDP port of RoCE v2 (annex A17.3.2.2).
const Port = 4791

// Sentinels for errors.Is.
var (
	ErrBusy      = object.ErrBusy      // other objects use the object
	ErrClosed    = object.ErrClosed    // the device is closed
	ErrDestroyed = object.ErrDestroyed // the object was destroyed
	ErrOverflow  = object.ErrOverflow  // a completion queue had no room for a completion
)

// A Device is an open RDMA device with one port, on one local address.
type Device struct {
	drv      provider.Device
	local    *adapter.Device // the adapter of drv
	stack    *Stack          // of local
	fabric   provider.Fabric // nil unless the device is a port of a fabric
	choice   host.Choice
	protocol Protocol
	guid     uint64
	attr     DeviceAttr
	state    func() host.PortState // returns the current state of the port
	gids     []GIDEntry
	zone     string
	spin     time.Duration

	release  func() error // returns the slot of a shared address; nil if there is none
	slots    slots        // of a shared address; nil if there is none
	sameHost hostPath
	spinning waiting.Turn // of the waiting calls, to poll for packets

	watcher *host.Watcher // nil if the system has no watcher

	mu       sync.Mutex
	captures []*Capture

	kept   keptRecords
	faults *faults.Injector

	unanswer func() // ends answer; nil if the process does not answer for the device

	measuring atomic.Pointer[time.Timer] // ends what a question for a sample has begun
}

// Faults returns what applies rules of faults to the device (Config.Faults). Its rules can be changed at
// any time, and it lists what they have hit.
func (d *Device) Faults() *faults.Injector { return d.faults }

// Name returns the name of the network interface.
func (d *Device) Name() string { return d.choice.Interface.Name }

// Addr returns the local address and UDP port that peers send to. The port of an
// iWARP device is 0: each connection has a TCP port of its own. Those of a RoCE v1 device, its
// EtherType 0x8915, and of a port of a fabric, 32, mean nothing to peers. The address of such a
// port is that of the fabric's table of IP addresses, or else its GID.
func (d *Device) Addr() netip.AddrPort { return d.choice.Addr }

// Spin returns how long waiting calls poll before they sleep: Config.Spin, or its default.
func (d *Device) Spin() time.Duration { return d.spin }

// Explain describes how the device's address was chosen, one sentence per line.
func (d *Device) Explain() []string { return d.choice.Why }

// Close ends the device with all its objects. Waiting calls return ErrClosed.
// Close finishes captures and returns their errors. When it returns the device no
// longer accesses registered memory, and Memory.Free succeeds. A second Close
// waits for the first.
func (d *Device) Close() error {
	registry.Remove(d)
	if d.unanswer != nil {
		d.unanswer()
		if t := d.measuring.Load(); t != nil {
			t.Stop()
		}
	}
	d.unwatch()
	d.local.Sanitizer().Ended()
	err := errors.Join(d.unpublish(), d.drv.Close(), d.kept.close(), d.giveUp())
	allocation.Forget(d)
	d.mu.Lock()
	captures := d.captures
	d.captures = nil
	d.mu.Unlock()
	for _, c := range captures {
		err = errors.Join(err, c.Close())
	}
	return err
}

// Counts are the numbers of existing objects, by kind.
type Counts struct {
	PD, CQ, QP, SRQ, MR, MW, AH, Channel int
}

// Counts returns how many objects of each kind exist, for tests of leaks.
func (d *Device) Counts() Counts { return Counts(d.drv.Count()) }

// Counters returns each named reason that the device has given and how often.
func (d *Device) Counters() iter.Seq2[string, uint64] {
	return func(yield func(string, uint64) bool) {
		for r, n := range d.drv.Counters() {
			if !yield(r.String(), n) {
				return
			}
		}
	}
}

// Traffic returns how many bytes of payload were in packets that the device has sent, repeated
// ones included, and has received, without repeated SENDs and WRITEs. Over iWARP TCP repeats, so nothing
// is counted twice.
func (d *Device) Traffic() (sent, received uint64) { return d.drv.Traffic() }

// An Event is an asynchronous event (IBTA 11.6.3). At most one of QP, CQ and SRQ is
// set: the object that it concerns. An event of the device or port has none.
type Event struct {
	Type EventType
	QP   *QP
	CQ   *CQ
	SRQ  *SRQ

	why reason.Detail
}

// String returns the event, the object that it concerns, and the reason.
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

// NextEvent waits for the next asynchronous event of the device, its port or its
// objects (ibv_get_async_event). The error is ErrClosed or the context's.
func (d *Device) NextEvent(ctx context.Context) (Event, error) {
	a, err := d.drv.NextEvent(ctx)
	if err != nil {
		return Event{}, err
	}
	e := Event{Type: EventType(a.Type), why: a.Detail}
	switch x := a.Owner.(type) {
	case *QP:
		e.QP = x
	case *CQ:
		e.CQ = x
	case *SRQ:
		e.SRQ = x
	}
	return e, nil
}
