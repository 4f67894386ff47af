package msg_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"softrdma/msg"
	"softrdma/verbs"
)

// railed are the devices of two workers with two devices each.
var railed = map[string][2][2]string{
	"RoCE":           {{"127.0.0.31", "127.0.0.32"}, {"127.0.0.33", "127.0.0.34"}},
	"iWARP":          {{"iwarp:127.0.0.31", "iwarp:127.0.0.32"}, {"iwarp:127.0.0.33", "iwarp:127.0.0.34"}},
	"RoCE and iWARP": {{"127.0.0.31", "iwarp:127.0.0.32"}, {"iwarp:127.0.0.33", "127.0.0.34"}},
}

// A railWorker is a worker with its devices.
type railWorker struct {
	*msg.Worker
	devices []*verbs.Device
	failed  chan error // endpoints that failed
}

func openRails(t *testing.T, c msg.Config, names ...string) *railWorker {
	t.Helper()
	w := &railWorker{failed: make(chan error, 10)}
	for _, name := range names {
		dev, err := openFree(name, verbs.Config{NoLoopback: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = dev.Close() }) // the test may have closed it
		w.devices = append(w.devices, dev)
	}
	c.Rails = w.devices[1:]
	c.Failed = func(_ *msg.Endpoint, err error) { w.failed <- err }
	c.Refused = func(from netip.AddrPort, err error) { t.Logf("%v is refused: %v", from, err) }
	var err error
	if w.Worker, err = msg.NewWorker(w.devices[0], c); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Errorf("close the worker: %v", err)
		}
	})
	return w
}

// eachRails runs a test with two workers of two devices each, whose long messages are read and written.
func eachRails(t *testing.T, c msg.Config, f func(t *testing.T, a, b *railWorker)) {
	for name, devices := range railed {
		for _, how := range []msg.Rendezvous{msg.RendezvousGet, msg.RendezvousPut} {
			t.Run(fmt.Sprintf("%s/%d", name, how), func(t *testing.T) {
				c.Rendezvous = how
				f(t, openRails(t, c, devices[0][:]...), openRails(t, c, devices[1][:]...))
			})
		}
	}
}

// Operations of all kinds work over rails, in both directions, and long messages use each rail.
func TestRailsCarryOperationsOfAllKinds(t *testing.T) {
	eachRails(t, msg.Config{Eager: 1000, Unexpected: 8, Stream: 5000}, func(t *testing.T, a, b *railWorker) {
		e := connect(t, a.Worker, b.Worker)
		if n := len(e.Rails()); n != 2 {
			t.Errorf("%d rails, expected 2", n)
		}
		for i, n := range []int{0, 1, 1000, 1001, 300000, 6 << 20} {
			data, buf := random(n), make([]byte, n)
			r := b.Receive(cut(buf, 20), uint64(i), msg.All)
			wait(t, e.Send(uint64(i), cut(data, 7), nil))
			if got := wait(t, r); got.Length != n || !bytes.Equal(buf, data) {
				t.Errorf("%d bytes: %+v", n, got)
			}
		}
		for i := range a.devices { // long messages do not need the other rail
			release := []func(){a.HoldRail(1 - i), b.HoldRail(1 - i)}
			data, buf := random(3<<20), make([]byte, 3<<20)
			r := b.Receive(msg.Buffers{buf}, 9, msg.All)
			wait(t, e.Send(9, msg.Buffers{data}, nil))
			if wait(t, r); !bytes.Equal(buf, data) {
				t.Error("other bytes")
			}
			for _, f := range release {
				f()
			}
		}
		data := random(70000)
		answers := make(chan []byte, 1)
		b.Handle(idFirst, func(m *msg.Active) {
			buf := make([]byte, m.Length)
			from := m.From
			m.Receive(msg.Buffers{buf}).Then(func(msg.Info, error) { from.SendActive(idReply, nil, msg.Buffers{buf[:500]}, nil) })
		})
		a.Handle(idReply, func(m *msg.Active) { answers <- bytes.Clone(m.Data) })
		wait(t, e.SendActive(idFirst, []byte{1}, msg.Buffers{data}, nil))
		if !bytes.Equal(next(t, answers), data[:500]) {
			t.Error("the answer has other bytes")
		}
		checkRailAccesses(t, b, e)
		if err := e.Close(within(t)); err != nil {
			t.Error(err)
		}
		next(t, b.failed) // says who closed
	})
}

func checkRailAccesses(t *testing.T, b *railWorker, e *msg.Endpoint) {
	t.Helper()
	region, m := share(t, b.Worker, e, make([]byte, 100000), msg.AllowAll)
	data, got := random(50000), make([]byte, 50000)
	var old uint64
	wait(t, m.Put(8, msg.Buffers{data}))
	wait(t, m.Put(0, msg.Buffers{zeroes[:8]}))
	wait(t, m.Atomic64(msg.AtomicAdd, 0, 5, nil))
	wait(t, m.Atomic64(msg.AtomicXor, 0, 1, &old))
	e.Fence()
	wait(t, m.Get(8, msg.Buffers{got}))
	wait(t, e.Flush())
	if !bytes.Equal(got, data) || old != 5 || !bytes.Equal(peek(region.Bytes())[8:50008], data) {
		t.Errorf("accesses: found %d", old)
	}
}

// One of two devices closes at a random time, at one of the workers. Every message arrives once, in
// order, with its bytes, and no failure is reported before the second device closes.
func TestRailsGoOnWhenADeviceCloses(t *testing.T) {
	eachRails(t, msg.Config{Eager: 500, Unexpected: 16}, func(t *testing.T, a, b *railWorker) {
		const messages = 300
		e := connect(t, a.Worker, b.Worker)
		if len(e.Rails()) != 2 {
			t.Fatal("a rail is not connected")
		}
		_, m := share(t, b.Worker, e, make([]byte, 1<<20), msg.AllowAll)
		rng := rand.New(rand.NewPCG(uint64(len(a.Address())), rand.Uint64()))
		closeAt, side, rail := rng.IntN(messages), []*railWorker{a, b}[rng.IntN(2)], rng.IntN(2)
		t.Logf("device %d closes with message %d, at the receiver %v", rail, closeAt, side == b)
		data := random(1 << 20)
		size := func(i int) int { return []int{4, 300, 2000, 100000, 900000}[i*7%5] }
		var receives []*msg.Request
		var bufs [][]byte
		for i := range messages {
			bufs = append(bufs, make([]byte, size(i)+8))
			receives = append(receives, b.Receive(msg.Buffers{bufs[i]}, 0, 0))
		}
		closed := make(chan error, 1)
		var sends []*msg.Request
		for i := range messages {
			x := binary.BigEndian.AppendUint64(nil, uint64(i))
			sends = append(sends, e.Send(uint64(i), [][]byte{x, data[:size(i)]}, nil))
			if i%10 == 0 {
				sends = append(sends, m.Put(0, msg.Buffers{data[:size(i)]}), m.Get(0, msg.Buffers{make([]byte, size(i))}), e.Flush())
			}
			if i == closeAt {
				go func() { closed <- side.devices[rail].Close() }()
			}
		}
		for i, r := range receives {
			got := wait(t, r)
			if got.Tag != uint64(i) || got.Length != size(i)+8 || binary.BigEndian.Uint64(bufs[i]) != uint64(i) || !bytes.Equal(bufs[i][8:], data[:size(i)]) {
				t.Fatalf("message %d: %+v, number %d", i, got, binary.BigEndian.Uint64(bufs[i]))
			}
		}
		for _, s := range sends {
			wait(t, s)
		}
		if err := next(t, closed); err != nil {
			t.Error(err)
		}
		if e.Err() != nil || len(a.failed)+len(b.failed) > 0 {
			t.Fatalf("the endpoint has failed: %v", e.Err())
		}
		wait(t, e.Flush())
		if err := side.devices[1-rail].Close(); err != nil {
			t.Error(err)
		}
		for _, w := range []*railWorker{a, b} {
			if err := next(t, w.failed); !errors.Is(err, msg.ErrPeer) || len(w.failed) > 0 {
				t.Errorf("%v, expected %v once", err, msg.ErrPeer)
			}
		}
		if _, err := e.Send(1, nil, nil).Wait(within(t)); !errors.Is(err, msg.ErrPeer) {
			t.Errorf("send without rails: %v", err)
		}
	})
}

// Workers without a protocol in common are told so. One device of a worker is enough.
func TestRailsPairDevicesOfOneProtocol(t *testing.T) {
	roce, iwarp := openRails(t, msg.Config{}, "127.0.0.31"), openRails(t, msg.Config{}, "iwarp:127.0.0.32")
	both := openRails(t, msg.Config{}, "iwarp:127.0.0.33", "127.0.0.34")
	if _, err := roce.Connect(within(t), iwarp.Address()); !errors.Is(err, msg.ErrPath) {
		t.Errorf("%v, expected %v", err, msg.ErrPath)
	}
	for _, w := range []*railWorker{roce, iwarp} {
		for _, p := range [][2]*railWorker{{w, both}, {both, w}} {
			e := connect(t, p[0].Worker, p[1].Worker)
			r := p[1].Receive(msg.Buffers{make([]byte, 100000)}, 1, msg.All)
			wait(t, e.Send(1, msg.Buffers{random(100000)}, nil))
			wait(t, r)
			checkRailAccesses(t, p[1], e)
		}
	}
}

// Atomic operations whose device closes end with their result or ErrUncertain, and none is executed
// twice. Later ones use the other device. Nothing stays on the device that is left.
func TestAtomicsOfARailThatFailsAreNotRepeated(t *testing.T) {
	for name, devices := range railed {
		t.Run(name, func(t *testing.T) {
			a, b := openRails(t, msg.Config{}, devices[0][:]...), openRails(t, msg.Config{}, devices[1][:]...)
			before := a.devices[1].Counts()
			e := connect(t, a.Worker, b.Worker)
			region, m := share(t, b.Worker, e, make([]byte, 16), msg.AllowAll)
			const adds = 2000
			var requests []*msg.Request
			closed := make(chan error, 1)
			for i := range adds {
				requests = append(requests, m.Atomic64(msg.AtomicAdd, 0, 1, nil), m.Put(8, msg.Buffers{[]byte{byte(i)}}))
				if i%8 == 0 {
					e.Fence()
				}
				if i == adds/2 {
					go func() { closed <- a.devices[0].Close() }() // the device of accesses
				}
			}
			uncertain := uint64(0)
			for _, r := range requests {
				if _, err := r.Wait(within(t)); errors.Is(err, msg.ErrUncertain) {
					uncertain++
				} else if err != nil {
					t.Fatal(err)
				}
			}
			wait(t, e.Flush())
			if err := next(t, closed); err != nil {
				t.Error(err)
			}
			n := word64(peek(region.Bytes())[:8])
			t.Logf("%d operations are uncertain, %d were carried out", uncertain, n)
			if n > adds || n < adds-uncertain || uncertain > 64 {
				t.Errorf("the word is %d after %d operations, %d of them uncertain", n, adds, uncertain)
			}
			if x := peek(region.Bytes())[8]; x != byte((adds-1)%256) {
				t.Errorf("the last put wrote %d", x)
			}
			for end := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) { // the device may have closed late
				if rails := e.Rails(); len(rails) == 1 && rails[0] == a.devices[1] {
					break
				} else if time.Now().After(end) {
					t.Fatalf("%d devices work, expected the second", len(rails))
				}
			}
			if err := e.Close(within(t)); err != nil {
				t.Error(err)
			}
			for end := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
				now := a.devices[1].Counts()
				if now == before {
					break
				}
				if time.Now().After(end) {
					t.Fatalf("objects %+v are left, expected %+v", now, before)
				}
			}
		})
	}
}
