package carrier_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"softrdma/internal/carrier"
	"softrdma/internal/session"
	"softrdma/internal/simnet"
	"softrdma/internal/simnet/bubble"
	"softrdma/rdmacm"
	"softrdma/verbs"
)

// Sizes of both ends.
const (
	slots       = 30
	frameLen    = 5000
	peerTimeout = 5 * time.Second
	patience    = time.Minute // of virtual time
)

var errEnd = errors.New("the test ends the connection")

// A frame is what an owner was given.
type frame struct {
	session.Header
	body []byte // in the memory of the receive
	copy []byte
	at   int
}

// An end is one end of a connection, and the session that owns it. The engine's lock guards what the
// owner is told.
type end struct {
	carrier.Plain
	t      *testing.T
	host   *bubble.Host
	e      *carrier.Engine
	domain *carrier.Domain
	out    carrier.Frames
	c      *carrier.Conn
	stop   context.CancelFunc

	flush   bool  // in Push
	keep    bool  // keep receives
	refuse  error // answers frames
	arrived []frame
	sent    [slots]int
	into    []carrier.Span // what READs fill
	moved   map[int][]error
	drained int
	broken  int
}

// Arrive implements carrier.Owner.
func (x *end) Arrive(c *carrier.Conn, b []byte, at int) (keep bool, err error) {
	x.told()
	h, body, err := session.Parse(b)
	if err != nil {
		return false, err
	}
	if x.refuse != nil {
		return false, x.refuse
	}
	if h.Kind != session.Credit {
		x.arrived = append(x.arrived, frame{h, body, slices.Clone(body), at})
	}
	return x.keep, nil
}

// Sent implements carrier.Owner.
func (x *end) Sent(_ *carrier.Conn, slot int) {
	x.told()
	x.sent[slot]++
}

// Local implements carrier.Mover.
func (x *end) Local(c *carrier.Conn, m carrier.Move) (verbs.SGE, error) {
	r, err := x.into[m.Slot].On(c.Rail)
	if err != nil {
		return verbs.SGE{}, err
	}
	return r.SGE(0, len(m.Data)), nil
}

// Moved implements carrier.Mover.
func (x *end) Moved(_ *carrier.Conn, m carrier.Move, err error) {
	x.told()
	x.moved[m.Slot] = append(x.moved[m.Slot], err)
}

// Push implements carrier.Owner.
func (x *end) Push(*carrier.Conn) {
	if x.told(); x.flush {
		x.e.Flush()
	}
}

// Drain implements carrier.Owner.
func (x *end) Drain(*carrier.Conn) {
	x.told()
	x.drained++
}

// Released implements carrier.Owner.
func (x *end) Released(*carrier.Conn) {
	x.told()
	x.broken++
}

func (x *end) told() {
	if x.broken > 0 {
		x.t.Error("the owner is told something after the end")
	}
}

// await waits until a condition holds, which is tried with the engine's lock.
func (x *end) await(what string, ok func() bool) {
	x.t.Helper()
	holds := func() (held bool) {
		x.locked(func() { held = ok() })
		return held
	}
	for until := time.Now().Add(patience); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(until) {
			x.t.Fatalf("still not: %s", what)
		}
	}
}

// drive makes progress whenever something arrives.
func (x *end) drive(ctx context.Context) {
	for {
		x.locked(func() {
			x.e.Arm()
			x.e.Progress()
		})
		if err := x.e.Next(ctx); ctx.Err() != nil {
			return
		} else if err != nil {
			x.locked(func() { x.e.Fail(err) })
			return
		}
	}
}

// send sends a frame with a body in a slot.
func (x *end) send(slot int, body []byte) {
	x.e.Lock()
	defer x.e.Unlock()
	h := session.Header{Kind: session.Request, Slot: uint16(slot), Length: uint64(len(body))}
	h.Put(x.out.Bytes(slot))
	x.c.Send(slot, session.HeaderLen+copy(x.out.Bytes(slot)[session.HeaderLen:], body))
	x.e.Flush()
}

// release frees all receives that the owner has kept.
func (x *end) release() {
	for _, f := range x.arrived {
		x.c.Release(f.at)
	}
	x.arrived = nil
}

// rnr counts the messages for which the end had no receive.
func (x *end) rnr() (n uint64) {
	for name, count := range x.host.Device.Counters() {
		if strings.Contains(name, "RNR") {
			n += count
		}
	}
	return n
}

// ends connects two ends over a network with faults. The receives of both ends are as many. Without credits
// there are fewer than a session needs.
func ends(t *testing.T, seed uint64, faults simnet.Faults, receives int, change ...func(*carrier.ConnConfig)) (client, server *end) {
	t.Helper()
	w := bubble.New(seed, simnet.LinkConfig{Egress: faults, Ingress: faults})
	t.Cleanup(w.End)
	client, server = newEnd(t, w, "127.0.0.1"), newEnd(t, w, "127.0.0.2")
	l, err := rdmacm.Listen("127.0.0.2:4000", rdmacm.ListenConfig{Device: server.host.Device})
	if err != nil {
		t.Fatal(err)
	}
	accepted := make(chan error, 1)
	go func() {
		r, err := l.Request(t.Context())
		if err == nil {
			var cm *rdmacm.Conn
			err = server.connect(receives, change, r.CreateQP, func() (*rdmacm.Conn, error) {
				cm, err = r.Accept(t.Context(), rdmacm.ConnParam{})
				return cm, err
			})
		}
		accepted <- err
	}()
	d := rdmacm.Dialer{Device: client.host.Device}
	ep, err := d.Resolve(t.Context(), "127.0.0.2:4000")
	if err == nil {
		err = client.connect(receives, change, ep.CreateQP, func() (*rdmacm.Conn, error) { return ep.Connect(t.Context(), rdmacm.ConnParam{}) })
	}
	if err := errors.Join(err, <-accepted, l.Close()); err != nil {
		t.Fatal(err)
	}
	return client, server
}

func newEnd(t *testing.T, w *bubble.World, address string) *end {
	t.Helper()
	h, err := w.Open(address)
	if err != nil {
		t.Fatal(err)
	}
	x := &end{t: t, host: h, moved: map[int][]error{}}
	if x.e, err = carrier.NewEngine(h.Device, nil); err == nil {
		x.domain, err = carrier.NewDomain(x.e.First())
	}
	if err == nil {
		x.out, err = x.domain.Frames(slots, frameLen, 0, x.e.First())
	}
	if err != nil {
		t.Fatal(err)
	}
	var ctx context.Context
	ctx, x.stop = context.WithCancel(context.Background())
	x.e.Ending.Go(func() { x.drive(ctx) })
	t.Cleanup(x.close)
	return x
}

func (x *end) config(receives int) carrier.ConnConfig {
	return carrier.ConnConfig{
		Owner: x, Domain: x.domain, Rail: x.e.First(), Out: &x.out, OutSlots: slots, Slots: 16, Size: 256,
		Frame: frameLen, Receives: receives, Timeout: peerTimeout,
	}
}

func (x *end) connect(receives int, change []func(*carrier.ConnConfig), create func(*verbs.PD, verbs.QPConfig) (*verbs.QP, error), establish func() (*rdmacm.Conn, error)) error {
	cfg := x.config(receives)
	for _, f := range change {
		f(&cfg)
	}
	c, err := x.e.NewConn(cfg, create)
	if err != nil {
		return err
	}
	cm, err := establish()
	if err != nil {
		return err
	}
	x.e.Lock()
	defer x.e.Unlock()
	x.c = c
	var credits carrier.Credits
	if receives >= session.MinReceives {
		credits = session.NewFlow(receives, receives)
	}
	c.Start(cm, credits)
	return nil
}

// fail ends the connection from this end.
func (x *end) fail() { x.locked(func() { x.c.Fail(errEnd) }) }

// close ends everything, and checks that nothing is left.
func (x *end) close() {
	defer func() { _ = x.host.Device.Close() }() // a test may have closed it
	if x.c != nil {
		x.fail()
		x.await("the connection has ended", func() bool { return x.broken == 1 })
		x.locked(x.release)
	}
	x.stop()
	if err := x.e.Close(); err != nil {
		x.t.Error(err)
	}
	x.out.Free()
	x.domain.Release()
	if c := x.host.Device.Counts(); c != (verbs.Counts{}) {
		x.t.Errorf("the device has %+v left", c)
	}
}

// locked calls f with the engine's lock.
func (x *end) locked(f func()) {
	x.e.Lock()
	defer x.e.Unlock()
	f()
}
