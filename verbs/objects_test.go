package verbs_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"softrdma/verbs"
)

func TestObjectsInUseRefuseToGo(t *testing.T) {
	s := newSide(t, addrA, 64, verbs.RC)
	for name, err := range map[string]error{"PD": s.pd.Dealloc(), "CQ": s.cq.Destroy()} {
		if !errors.Is(err, verbs.ErrBusy) {
			t.Errorf("%s in use: expected ErrBusy, found %v", name, err)
		}
	}
	srq, err := s.pd.CreateSRQ(verbs.SRQConfig{})
	if err != nil {
		t.Fatal(err)
	}
	q, err := s.pd.CreateQP(verbs.QPConfig{Type: verbs.RC, SendCQ: s.cq, SRQ: srq})
	if err != nil {
		t.Fatal(err)
	}
	if err := srq.Destroy(); !errors.Is(err, verbs.ErrBusy) {
		t.Errorf("SRQ in use: expected ErrBusy, found %v", err)
	}
	for _, f := range []func() error{q.Destroy, srq.Destroy, s.qp.Destroy, s.mr.Deregister, s.cq.Destroy, s.pd.Dealloc} {
		if err := f(); err != nil {
			t.Fatal(err)
		}
	}
	if c := s.dev.Counts(); c != (verbs.Counts{}) {
		t.Fatalf("objects left: %+v", c)
	}
}

func TestAllocatedMemoryIsHeldWhileRegistered(t *testing.T) {
	s := newSide(t, addrA, 64, verbs.RC)
	m, err := verbs.AllocMemory(10000, verbs.AllocConfig{})
	if err != nil {
		t.Fatal(err)
	}
	b := m.Bytes()
	if len(b) != 10000 || uintptr(unsafe.Pointer(&b[0]))%4096 != 0 {
		t.Fatalf("length %d at %p", len(b), &b[0])
	}
	mr, err := s.pd.RegisterMemory(b[100:200], verbs.LocalWrite)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Free(); !errors.Is(err, verbs.ErrBusy) {
		t.Fatalf("freed under a region: %v", err)
	}
	if err := mr.Deregister(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := m.Free(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := verbs.AllocMemory(0, verbs.AllocConfig{}); err == nil {
		t.Fatal("allocated nothing")
	}
}

func TestTransitionErrorNamesWhatIsMissing(t *testing.T) {
	s := newSide(t, addrA, 64, verbs.RC)
	if err := s.qp.ToRTR(verbs.RTRAttr{}); err == nil || !strings.Contains(err.Error(), "RESET") {
		t.Fatalf("RESET to RTR: %v", err)
	}
	if err := s.qp.ToInit(verbs.InitAttr{}); err != nil {
		t.Fatal(err)
	}
	err := s.qp.ToRTR(verbs.RTRAttr{PathMTU: 1024})
	for _, want := range []string{"IBV_QP_DEST_QPN", "IBV_QP_AV"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("missing attributes: expected %s in %v", want, err)
		}
	}
	if err == nil || strings.Contains(err.Error(), "PATH_MTU") {
		t.Errorf("path MTU was given: %v", err)
	}
	if err := s.qp.PostSend(verbs.SendWR{Op: verbs.OpSend}); err == nil {
		t.Error("posted in INIT")
	}
}

func TestMemoryWindowType2(t *testing.T) {
	a, b := pair(t, 4096, verbs.RC)
	mw, err := b.pd.AllocMW(verbs.MWType2)
	if err != nil {
		t.Fatal(err)
	}
	b.post(t, verbs.SendWR{Op: verbs.OpBindMW, Flags: verbs.Signaled, Bind: &verbs.Bind{MW: mw, MR: b.mr, Addr: b.mr.Addr() + 100, Length: 50, Access: verbs.RemoteWrite}})
	b.ok(t, verbs.WCBindMW)
	if err := b.mr.Deregister(); !errors.Is(err, verbs.ErrBusy) {
		t.Fatalf("deregistered under a window: %v", err)
	}
	write := verbs.SendWR{Op: verbs.OpWrite, Flags: verbs.Signaled, Inline: []byte("through"), RemoteAddr: b.mr.Addr() + 143, RKey: mw.RKey()}
	a.post(t, write)
	a.ok(t, verbs.WCWrite)
	if string(b.buf[143:150]) != "through" {
		t.Fatalf("found %q", b.buf[143:150])
	}
	// The peer invalidates the window with its SEND.
	b.recv(t, 9, 0, 10)
	a.post(t, verbs.SendWR{Op: verbs.OpSendInv, InvalidateKey: mw.RKey(), Flags: verbs.Signaled})
	a.ok(t, verbs.WCSend)
	if wc := b.ok(t, verbs.WCRecv); wc.Flags&verbs.WCWithInv == 0 || wc.InvalidatedKey != mw.RKey() {
		t.Fatalf("completion %+v", wc)
	}
	a.post(t, write)
	if wc := a.one(t); wc.Status != verbs.RemAccessErr {
		t.Fatalf("write through an invalidated window: %v", wc.Status)
	}
	if err := b.mr.Deregister(); err != nil {
		t.Fatal(err)
	}
}

func TestSharedReceiveQueueRaisesLimitEvent(t *testing.T) {
	a, b := newSide(t, addrA, 4096, verbs.RC), newSide(t, addrB, 4096, verbs.RC)
	srq, err := b.pd.CreateSRQ(verbs.SRQConfig{MaxRecv: 8, Limit: 2})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		if err := srq.PostRecv(verbs.RecvWR{WRID: uint64(i), SGL: []verbs.SGE{b.mr.SGE(8*i, 8)}}); err != nil {
			t.Fatal(err)
		}
	}
	if b.qp, err = b.pd.CreateQP(verbs.QPConfig{Type: verbs.RC, SendCQ: b.cq, SRQ: srq}); err != nil {
		t.Fatal(err)
	}
	ea, eb := a.qp.Endpoint(), b.qp.Endpoint()
	if err := errors.Join(a.qp.Connect(ea, eb, verbs.ConnectConfig{}), b.qp.Connect(eb, ea, verbs.ConnectConfig{})); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		a.post(t, verbs.SendWR{Op: verbs.OpSend, Flags: verbs.Signaled, SGL: []verbs.SGE{a.mr.SGE(0, 8)}})
		a.ok(t, verbs.WCSend)
		b.ok(t, verbs.WCRecv)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for {
		e, err := b.dev.NextEvent(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if e.Type == verbs.EventSRQLimitReached {
			if e.SRQ != srq {
				t.Fatalf("event of another SRQ: %v", e)
			}
			break
		}
	}
}

func TestOneChannelServesManyCQs(t *testing.T) {
	a, b := pair(t, 4096, verbs.RC)
	ch, err := b.dev.CreateCompChannel()
	if err != nil {
		t.Fatal(err)
	}
	var cqs [2]*verbs.CQ
	for i := range cqs {
		if cqs[i], err = b.dev.CreateCQ(verbs.CQConfig{Channel: ch}); err != nil {
			t.Fatal(err)
		}
		cqs[i].Arm(false)
	}
	if err := ch.Destroy(); !errors.Is(err, verbs.ErrBusy) {
		t.Fatalf("channel in use: %v", err)
	}
	q, err := b.pd.CreateQP(verbs.QPConfig{Type: verbs.RC, SendCQ: cqs[0], RecvCQ: cqs[1]})
	if err != nil {
		t.Fatal(err)
	}
	if a.qp, err = a.pd.CreateQP(verbs.QPConfig{Type: verbs.RC, SendCQ: a.cq}); err != nil {
		t.Fatal(err)
	}
	ea, eb := a.qp.Endpoint(), q.Endpoint()
	if err := errors.Join(a.qp.Connect(ea, eb, verbs.ConnectConfig{}), q.Connect(eb, ea, verbs.ConnectConfig{})); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := q.PostRecv(verbs.RecvWR{SGL: []verbs.SGE{b.mr.SGE(0, 64)}}); err != nil {
		t.Fatal(err)
	}
	a.post(t, verbs.SendWR{Op: verbs.OpSend, SGL: []verbs.SGE{a.mr.SGE(0, 8)}})
	if c, err := ch.Next(ctx); err != nil || c != cqs[1] {
		t.Fatalf("event of %v, expected the receive queue's: %v", c, err)
	}
	if err := q.PostSend(verbs.SendWR{Op: verbs.OpWrite, Flags: verbs.Signaled, RemoteAddr: a.mr.Addr(), RKey: a.mr.RKey(), SGL: []verbs.SGE{b.mr.SGE(0, 8)}}); err != nil {
		t.Fatal(err)
	}
	if c, err := ch.Next(ctx); err != nil || c != cqs[0] {
		t.Fatalf("event of %v, expected the send queue's: %v", c, err)
	}
}

func TestCompletionQueueOverflowFailsItsQPs(t *testing.T) {
	a, b := newSide(t, addrA, 4096, verbs.RC), newSide(t, addrB, 4096, verbs.RC)
	small, err := a.dev.CreateCQ(verbs.CQConfig{Depth: 1})
	if err != nil {
		t.Fatal(err)
	}
	if a.qp, err = a.pd.CreateQP(verbs.QPConfig{Type: verbs.RC, SendCQ: small}); err != nil {
		t.Fatal(err)
	}
	ea, eb := a.qp.Endpoint(), b.qp.Endpoint()
	if err := errors.Join(a.qp.Connect(ea, eb, verbs.ConnectConfig{}), b.qp.Connect(eb, ea, verbs.ConnectConfig{})); err != nil {
		t.Fatal(err)
	}
	w := verbs.SendWR{Op: verbs.OpWrite, Flags: verbs.Signaled, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey(), SGL: []verbs.SGE{a.mr.SGE(0, 8)}}
	a.post(t, w, w, w, w)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	seen := map[verbs.EventType]bool{}
	for !seen[verbs.EventCQErr] || !seen[verbs.EventQPFatal] {
		e, err := a.dev.NextEvent(ctx)
		if err != nil {
			t.Fatalf("events so far %v: %v", seen, err)
		}
		seen[e.Type] = true
	}
	var wcs [8]verbs.WC
	for {
		n, err := small.Poll(wcs[:])
		if errors.Is(err, verbs.ErrOverflow) {
			break
		}
		if err != nil || n > 1 {
			t.Fatalf("polled %d: %v", n, err)
		}
	}
}

func TestAtomicsAgreeWithLocalAtomics(t *testing.T) {
	a, b := pair(t, 4096, verbs.RC)
	mem, err := verbs.AllocMemory(4096, verbs.AllocConfig{Device: b.dev})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.mr.Reregister(mem.Bytes(), allRights); err != nil {
		t.Fatal(err)
	}
	b.buf = mem.Bytes()
	t.Cleanup(func() {
		if err := errors.Join(b.mr.Deregister(), mem.Free()); err != nil {
			t.Error(err)
		}
	})
	word := (*uint64)(unsafe.Pointer(&b.buf[0]))
	const each = 2000
	var local sync.WaitGroup
	defer local.Wait() // before the memory is unmapped, also if the test fails
	local.Go(func() {
		for range each {
			atomic.AddUint64(word, 1)
		}
	})
	for range each / 10 {
		for range 10 {
			a.post(t, verbs.SendWR{Op: verbs.OpFetchAdd, Add: 1, Flags: verbs.Signaled, SGL: []verbs.SGE{a.mr.SGE(0, 8)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()})
		}
		for range 10 {
			a.ok(t, verbs.WCFetchAdd)
		}
	}
	local.Wait()
	if got := atomic.LoadUint64(word); got != 2*each {
		t.Fatalf("counter %d, expected %d", got, 2*each)
	}
}

// A request that waits in the send queue when the state becomes SQD may be started or not.
func TestDrainThenResume(t *testing.T) {
	a, b := pair(t, 1<<20, verbs.RC)
	w := verbs.SendWR{Op: verbs.OpWrite, Flags: verbs.Signaled, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey(), SGL: []verbs.SGE{a.mr.SGE(0, 1<<20)}}
	a.post(t, w, w)
	if err := a.qp.ToSQD(true); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for {
		e, err := a.dev.NextEvent(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if e.Type == verbs.EventSQDrained {
			break
		}
	}
	done, err := a.cq.Poll(make([]verbs.WC, 3))
	if err != nil {
		t.Fatal(err)
	}
	a.post(t, w) // waits for RTS
	if n, err := a.cq.Poll(make([]verbs.WC, 1)); n != 0 || err != nil {
		t.Fatalf("%d completed in SQD after the queue was drained: %v", n, err)
	}
	if err := a.qp.Resume(); err != nil {
		t.Fatal(err)
	}
	for range 3 - done {
		a.ok(t, verbs.WCWrite)
	}
}

func TestErrorStateFlushes(t *testing.T) {
	a, _ := pair(t, 4096, verbs.RC)
	a.recv(t, 1, 0, 8)
	a.recv(t, 2, 0, 8)
	if err := a.qp.ToErr(); err != nil {
		t.Fatal(err)
	}
	a.recv(t, 3, 0, 8)
	a.post(t, verbs.SendWR{WRID: 4, Op: verbs.OpSend})
	var sum uint64
	for range 4 {
		wc := a.one(t)
		if wc.Status != verbs.WRFlushErr || wc.Reason() != "FLUSHED" {
			t.Fatalf("completion %+v, reason %v", wc, wc.Reason())
		}
		sum += wc.WRID
	}
	if sum != 1+2+3+4 {
		t.Fatalf("sum of work request IDs %d", sum)
	}
	if err := a.qp.ToReset(); err != nil {
		t.Fatal(err)
	}
}
