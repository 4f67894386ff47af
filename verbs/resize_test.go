package verbs_test

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"softrdma/verbs"
)

// The depth of a completion queue is changed while completions arrive and are polled: each
// comes once, in order.
func TestCompletionQueueResizesUnderTraffic(t *testing.T) {
	a, _ := ends{a: "127.7.4.1", b: "127.7.4.2", qp: verbs.QPConfig{Type: verbs.RC, MaxSend: 63}}.pair(t)
	const count = 6000
	stop := make(chan struct{})
	var all sync.WaitGroup
	var resized atomic.Int32
	all.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			// At most 63 are outstanding, so that neither depth overflows. A refusal means
			// that the queue holds more than fit.
			depth := []int{64, 1000, 65, 4000}[i%4]
			if a.cq.Resize(depth) == nil {
				resized.Add(1)
				if got := a.cq.Depth(); got < depth {
					t.Errorf("depth %d, expected %d", got, depth)
				}
			}
		}
	})
	posted, done := 0, 0
	wcs := make([]verbs.WC, 7)
	for done < count || resized.Load() < 10 && done < 100*count {
		for posted-done < 63 {
			w := a.write(0, 8)
			w.WRID = uint64(posted)
			if err := a.qp.PostSend(w); err != nil {
				t.Fatal(err)
			}
			posted++
		}
		n, err := a.cq.Poll(wcs)
		if err != nil {
			t.Fatal(err)
		}
		for _, wc := range wcs[:n] {
			if err := wc.Err(); err != nil || wc.WRID != uint64(done) {
				t.Fatalf("completion %d is of request %d: %v", done, wc.WRID, err)
			}
			done++
		}
	}
	close(stop)
	all.Wait()
	if n := resized.Load(); n < 10 {
		t.Fatalf("resized %d times only", n)
	}
}

func TestCompletionQueueDoesNotShrinkBelowItsEntries(t *testing.T) {
	a, _ := ends{a: "127.7.4.1", b: "127.7.4.2", qp: verbs.QPConfig{Type: verbs.RC}}.pair(t)
	const held = 20
	for range held {
		a.post(t, a.write(0, 8))
	}
	if err := a.qp.ToSQD(true); err != nil { // all have completed when it is drained
		t.Fatal(err)
	}
	event(t, a.dev, verbs.EventSQDrained)
	if err := a.cq.Resize(held - 10); err == nil {
		t.Fatalf("shrunk to %d", a.cq.Depth())
	}
	if err := a.cq.Resize(held); err != nil {
		t.Fatal(err)
	}
	for range held {
		a.ok(t, verbs.WCWrite)
	}
	for _, depth := range []int{-1, verbs.MaxCQDepth + 1} {
		if err := a.cq.Resize(depth); err == nil {
			t.Errorf("resized to %d", depth)
		}
	}
}

// The same for a shared receive queue: each receive is taken once, in order.
func TestSharedReceiveQueueResizesUnderTraffic(t *testing.T) {
	a, b := ends{a: "127.7.4.1", b: "127.7.4.2", qp: verbs.QPConfig{Type: verbs.RC}}.open(t)
	srq, err := b.pd.CreateSRQ(verbs.SRQConfig{MaxRecv: 64})
	if err != nil {
		t.Fatal(err)
	}
	if b.qp, err = b.pd.CreateQP(verbs.QPConfig{Type: verbs.RC, SendCQ: b.cq, SRQ: srq}); err != nil {
		t.Fatal(err)
	}
	ends{}.join(t, a, b)
	if err := b.qp.PostRecv(verbs.RecvWR{}); err == nil {
		t.Fatal("posted to a queue pair with an SRQ")
	}
	const count, ahead = 1000, 40
	post := func(i int) {
		if err := srq.PostRecv(verbs.RecvWR{WRID: uint64(i), SGL: []verbs.SGE{b.mr.SGE(0, 64)}}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range ahead {
		post(i)
	}
	for i := range count {
		if i%7 == 0 {
			depth := []int{64, 500, 100}[i/7%3]
			if err := srq.Resize(depth); err != nil || srq.Depth() < depth {
				t.Fatalf("resized to %d, found %d: %v", depth, srq.Depth(), err)
			}
		}
		a.post(t, verbs.SendWR{Op: verbs.OpSend, Flags: verbs.Signaled, SGL: []verbs.SGE{a.mr.SGE(0, 64)}})
		if wc := b.ok(t, verbs.WCRecv); wc.WRID != uint64(i) {
			t.Fatalf("receive %d took request %d", i, wc.WRID)
		}
		a.ok(t, verbs.WCSend)
		post(i + ahead)
	}
	if err := srq.Resize(ahead - 10); err == nil {
		t.Fatalf("shrunk to %d with %d posted", srq.Depth(), ahead)
	}
	if err := srq.SetLimit(ahead + 1); err != nil { // fewer are posted: the event comes at once
		t.Fatal(err)
	}
	event(t, b.dev, verbs.EventSRQLimitReached)
	if n := srq.Limit(); n != 0 {
		t.Fatalf("limit %d after its event", n)
	}
}

// A reregistered region has other keys and rights; the old keys are invalid, the memory stays.
func TestReregisterChangesMemoryAndRights(t *testing.T) {
	a, b := ends{a: "127.7.4.1", b: "127.7.4.2", qp: verbs.QPConfig{Type: verbs.RC}}.pair(t)
	old := a.write(0, 8) // uses the region's current key
	key := b.mr.RKey()
	other := make([]byte, 128)
	if err := b.mr.Reregister(other, allRights); err != nil {
		t.Fatal(err)
	}
	if b.mr.RKey() == key || b.mr.Len() != 128 || &b.mr.Bytes()[0] != &other[0] {
		t.Fatalf("key %#x after %#x, %d bytes", b.mr.RKey(), key, b.mr.Len())
	}
	b.buf = other
	a.buf[5] = 42
	a.post(t, a.write(0, 8))
	a.ok(t, verbs.WCWrite)
	if other[5] != 42 {
		t.Fatalf("found %d", other[5])
	}
	if err := b.mr.Reregister(nil, verbs.RemoteWrite); err == nil {
		t.Fatal("REMOTE_WRITE without LOCAL_WRITE")
	}
	a.post(t, a.write(0, 8)) // a refused change changes nothing
	a.ok(t, verbs.WCWrite)
	if err := b.mr.Reregister(nil, verbs.LocalWrite|verbs.RemoteRead); err != nil {
		t.Fatal(err)
	}
	read := a.write(0, 8)
	read.Op = verbs.OpRead
	a.post(t, read)
	a.ok(t, verbs.WCRead)
	a.post(t, a.write(0, 8))
	if wc := a.one(t); wc.Status != verbs.RemAccessErr {
		t.Fatalf("write to memory for reading: %v", wc.Status)
	}
	a.reconnect(t)
	a.post(t, old)
	if wc := a.one(t); wc.Status != verbs.RemAccessErr {
		t.Fatalf("write by the old key: %v", wc.Status)
	}
}

// reconnect takes both ends through RESET to RTS again.
func (s *side) reconnect(t testing.TB) {
	t.Helper()
	if err := errors.Join(s.qp.ToReset(), s.peer.qp.ToReset()); err != nil {
		t.Fatal(err)
	}
	ends{}.join(t, s, s.peer)
}

// A type 1 window is bound, bound again elsewhere, unbound, and bound again, each time with a
// new key that invalidates the old one.
func TestMemoryWindowType1(t *testing.T) {
	a, b := ends{a: "127.7.4.1", b: "127.7.4.2", qp: verbs.QPConfig{Type: verbs.RC, MaxInline: 16}}.pair(t)
	mw, err := b.pd.AllocMW(verbs.MWType1)
	if err != nil {
		t.Fatal(err)
	}
	bind := func(off, n uint64, access verbs.Access) uint32 {
		t.Helper()
		b.post(t, verbs.SendWR{Op: verbs.OpBindMW, Flags: verbs.Signaled,
			Bind: &verbs.Bind{MW: mw, MR: b.mr, Addr: b.mr.Addr() + off, Length: n, Access: access}})
		b.ok(t, verbs.WCBindMW)
		return mw.RKey()
	}
	write := func(off uint64, key uint32) verbs.Status {
		t.Helper()
		a.post(t, verbs.SendWR{Op: verbs.OpWrite, Flags: verbs.Signaled, Inline: []byte("12345678"), RemoteAddr: b.mr.Addr() + off, RKey: key})
		wc := a.one(t)
		if wc.Status != verbs.Success {
			a.reconnect(t)
		}
		return wc.Status
	}
	first := bind(100, 50, verbs.RemoteWrite)
	second := bind(1000, 8, verbs.RemoteWrite)
	if first == second {
		t.Fatalf("bound twice with key %#x", first)
	}
	for _, c := range []struct {
		name string
		off  uint64
		key  uint32
		want verbs.Status
	}{
		{"inside", 1000, second, verbs.Success},
		{"one byte before", 999, second, verbs.RemAccessErr},
		{"one byte beyond the end", 1001, second, verbs.RemAccessErr},
		{"by the key before", 100, first, verbs.RemAccessErr},
	} {
		if got := write(c.off, c.key); got != c.want {
			t.Errorf("write %s: %v, expected %v", c.name, got, c.want)
		}
	}
	third := bind(1000, 8, verbs.RemoteRead)
	if got := write(1000, third); got != verbs.RemAccessErr {
		t.Errorf("write through a window for reading: %v", got)
	}
	b.post(t, verbs.SendWR{Op: verbs.OpBindMW, Flags: verbs.Signaled, Bind: &verbs.Bind{MW: mw}}) // unbinds
	b.ok(t, verbs.WCBindMW)
	if err := b.mr.Deregister(); err != nil {
		t.Fatalf("deregister below an unbound window: %v", err)
	}
	if got := write(1000, mw.RKey()); got != verbs.RemAccessErr {
		t.Errorf("write through an unbound window: %v", got)
	}
	if err := mw.Dealloc(); err != nil {
		t.Fatal(err)
	}
}

func TestBindBeyondItsRegionFails(t *testing.T) {
	_, b := ends{a: "127.7.4.1", b: "127.7.4.2", qp: verbs.QPConfig{Type: verbs.RC}}.pair(t)
	mw, err := b.pd.AllocMW(verbs.MWType1)
	if err != nil {
		t.Fatal(err)
	}
	b.post(t, verbs.SendWR{Op: verbs.OpBindMW, Flags: verbs.Signaled,
		Bind: &verbs.Bind{MW: mw, MR: b.mr, Addr: b.mr.Addr() + uint64(b.mr.Len()) - 7, Length: 8, Access: verbs.RemoteWrite}})
	if wc := b.one(t); wc.Status != verbs.MWBindErr {
		t.Fatalf("status %v", wc.Status)
	}
}
