package verbs_test

import (
	"context"
	"encoding/binary"
	"errors"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"softrdma/verbs"
)

// A fence delays a request until earlier READs have completed (IBTA 10.8.3.3): a SEND of the
// memory that they write carries the new bytes.
func TestFenceWaitsForReads(t *testing.T) {
	a, b := ends{a: "127.7.3.1", b: "127.7.3.2", size: 1 << 20, qp: verbs.QPConfig{Type: verbs.RC}}.pair(t)
	const n = 1 << 19 // long enough that a SEND without a fence would overtake
	for round := range byte(20) {
		a.see()
		b.see()
		fillWith(a.buf[:n], 0)
		fillWith(b.buf[:n], round+1)
		b.recv(t, 1, n, 4096)
		a.post(t,
			verbs.SendWR{Op: verbs.OpRead, SGL: []verbs.SGE{a.mr.SGE(0, n)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()},
			verbs.SendWR{Op: verbs.OpSend, Flags: verbs.Fence | verbs.Signaled, SGL: []verbs.SGE{a.mr.SGE(n-4096, 4096)}})
		a.ok(t, verbs.WCSend)
		b.ok(t, verbs.WCRecv)
		for i, v := range b.buf[n : n+4096] {
			if v != round+1 {
				t.Fatalf("round %d: byte %d is %d: sent before it was read", round, i, v)
			}
		}
	}
}

// One post of many requests of all kinds: they are executed and completed in order.
func TestListOfRequestsIsCarriedOutInOrder(t *testing.T) {
	a, b := ends{a: "127.7.3.1", b: "127.7.3.2", qp: verbs.QPConfig{Type: verbs.RC, MaxInline: 16}}.pair(t)
	word := func(i int) []verbs.SGE { return []verbs.SGE{a.mr.SGE(1000+8*i, 8)} }
	at, key := b.mr.Addr(), b.mr.RKey()
	one := make([]byte, 8)
	binary.LittleEndian.PutUint64(one, 1)
	b.recv(t, 77, 512, 16)
	var list []verbs.SendWR
	for i, w := range []verbs.SendWR{
		{Op: verbs.OpWrite, Inline: one, RemoteAddr: at, RKey: key},
		{Op: verbs.OpFetchAdd, Add: 41, SGL: word(1), RemoteAddr: at, RKey: key},
		{Op: verbs.OpRead, SGL: word(2), RemoteAddr: at, RKey: key},
		// A READ and later requests keep their order only with a fence (10.8.3.3).
		{Op: verbs.OpCompareSwap, Compare: 42, Swap: 7, SGL: word(3), RemoteAddr: at, RKey: key, Flags: verbs.Fence},
		{Op: verbs.OpCompareSwap, Compare: 42, Swap: 9, SGL: word(4), RemoteAddr: at, RKey: key},
		{Op: verbs.OpFetchAdd, Add: 1, SGL: word(5), RemoteAddr: at, RKey: key},
		{Op: verbs.OpRead, SGL: word(6), RemoteAddr: at, RKey: key},
		{Op: verbs.OpSendImm, Imm: 5, SGL: word(6), Flags: verbs.Fence},
	} {
		w.WRID, w.Flags = uint64(i), w.Flags|verbs.Signaled
		list = append(list, w)
	}
	a.post(t, list...)
	for i := range list {
		wc := a.one(t)
		if err := wc.Err(); err != nil || wc.WRID != uint64(i) {
			t.Fatalf("completion %d is of request %d: %v", i, wc.WRID, err)
		}
	}
	for i, want := range []uint64{0, 1, 42, 42, 7, 7, 8} { // results in order
		if got := binary.LittleEndian.Uint64(a.buf[1000+8*i:]); got != want {
			t.Errorf("request %d returned %d, expected %d", i, got, want)
		}
	}
	if wc := b.ok(t, verbs.WCRecv); wc.WRID != 77 || wc.Imm != 5 || binary.LittleEndian.Uint64(b.buf[512:]) != 8 {
		t.Errorf("received %+v with %d", wc, b.buf[512])
	}
}

func TestPostOfTooManyRequestsPostsThoseThatFit(t *testing.T) {
	a, b := ends{a: "127.7.3.1", b: "127.7.3.2", qp: verbs.QPConfig{Type: verbs.RC, MaxSend: 7, MaxRecv: 7}}.open(t)
	depth := a.qp.Query().MaxSend
	list := make([]verbs.SendWR, depth+3)
	for i := range list {
		list[i] = verbs.SendWR{WRID: uint64(i), Op: verbs.OpWrite, Flags: verbs.Signaled}
	}
	ends{}.join(t, a, b)
	if err := a.qp.ToSQD(false); err != nil { // nothing leaves the queue
		t.Fatal(err)
	}
	var pe *verbs.PostError
	err := a.qp.PostSend(list...)
	if !errors.Is(err, verbs.ErrQueueFull) || !errors.As(err, &pe) || pe.Index != depth {
		t.Fatalf("posting %d requests to a queue of %d: %v", len(list), depth, err)
	}
	if err := a.qp.PostSend(list[depth]); !errors.Is(err, verbs.ErrQueueFull) {
		t.Fatalf("posting to a full queue: %v", err)
	}
	if err := a.qp.Resume(); err != nil {
		t.Fatal(err)
	}
	for i := range depth {
		if wc := a.ok(t, verbs.WCWrite); wc.WRID != uint64(i) {
			t.Fatalf("completion %d is of request %d", i, wc.WRID)
		}
	}
	// The same for receives.
	recvs := make([]verbs.RecvWR, depth+1)
	if err := b.qp.PostRecv(recvs...); !errors.Is(err, verbs.ErrQueueFull) || !errors.As(err, &pe) || pe.Index != depth {
		t.Fatalf("posting %d receives to a queue of %d: %v", len(recvs), depth, err)
	}
	for range depth {
		a.post(t, verbs.SendWR{Op: verbs.OpSend})
	}
	for range depth {
		b.ok(t, verbs.WCRecv)
	}
}

// Unsignalled requests free their slots, at the latest when the completion of the next
// signalled one is visible.
func TestUnsignaledRequestsLeaveTheQueue(t *testing.T) {
	for _, typ := range []verbs.QPType{verbs.RC, verbs.UC} {
		a, _ := ends{a: "127.7.3.1", b: "127.7.3.2", qp: verbs.QPConfig{Type: typ, MaxSend: 7}}.pair(t)
		depth := a.qp.Query().MaxSend
		quiet := a.write(0, 1000)
		quiet.Flags = 0
		for round := range 100 {
			for i := range depth - 1 {
				if err := a.qp.PostSend(quiet); err != nil {
					t.Fatalf("%v, round %d, request %d: %v", typ, round, i, err)
				}
			}
			last := a.write(0, 1000)
			last.WRID = uint64(round)
			a.post(t, last)
			// When its completion is visible, all slots are free.
			if wc := a.ok(t, verbs.WCWrite); wc.WRID != uint64(round) {
				t.Fatalf("%v: completion of request %d in round %d", typ, wc.WRID, round)
			}
		}
		if n, err := a.cq.Poll(make([]verbs.WC, 1)); n != 0 || err != nil {
			t.Fatalf("%v: %d completions of requests that were not signalled: %v", typ, n, err)
		}
		a.dev.Close()
		a.peer.dev.Close()
	}
}

func TestSignalAllSignalsAll(t *testing.T) {
	a, _ := ends{a: "127.7.3.1", b: "127.7.3.2", qp: verbs.QPConfig{Type: verbs.RC, SignalAll: true}}.pair(t)
	w := a.write(0, 10)
	w.Flags = 0
	a.post(t, w, w, w)
	for range 3 {
		a.ok(t, verbs.WCWrite)
	}
}

// WaitSolicited sleeps through unsolicited messages, and wakes for a solicited one or an error
// (IBTA 11.4.2.2).
func TestSolicitedWaitWakesForSolicitedOnly(t *testing.T) {
	a, b := ends{a: "127.7.3.1", b: "127.7.3.2", qp: verbs.QPConfig{Type: verbs.RC}}.pair(t)
	var returned atomic.Bool
	wait := func() chan error {
		returned.Store(false)
		c := make(chan error, 1)
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
			defer cancel()
			err := b.cq.WaitSolicited(ctx)
			returned.Store(true)
			c <- err
		}()
		time.Sleep(5 * time.Millisecond) // it usually sleeps by then
		return c
	}
	for _, last := range []verbs.SendWR{
		{Op: verbs.OpSend, Flags: verbs.Signaled | verbs.Solicited},
		{Op: verbs.OpWriteImm, Flags: verbs.Signaled | verbs.Solicited, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()},
	} {
		for range 4 {
			b.recv(t, 1, 0, 64)
		}
		c := wait()
		for range 3 {
			a.post(t, verbs.SendWR{Op: verbs.OpSend, Flags: verbs.Signaled, SGL: []verbs.SGE{a.mr.SGE(0, 8)}})
			a.ok(t, verbs.WCSend) // it has arrived
		}
		time.Sleep(5 * time.Millisecond)
		if returned.Load() {
			t.Fatalf("woken by an unsolicited completion: %v", <-c)
		}
		a.post(t, last)
		if err := <-c; err != nil {
			t.Fatal(err)
		}
		wcs := make([]verbs.WC, 8)
		if n, err := b.cq.Poll(wcs); n != 4 || err != nil {
			t.Fatalf("%d completions, expected 4: %v", n, err)
		}
		a.one(t)
	}
	b.recv(t, 1, 0, 64)
	c := wait()
	if err := b.qp.ToErr(); err != nil {
		t.Fatal(err)
	}
	if err := <-c; err != nil {
		t.Fatalf("waiting for a flushed completion: %v", err)
	}
}

// With as many waiters as completions, each gets one, although one event may announce several
// completions and disarms the queue.
func TestEveryWaiterGetsItsCompletion(t *testing.T) {
	a, b := ends{a: "127.7.3.1", b: "127.7.3.2", qp: verbs.QPConfig{Type: verbs.RC}}.pair(t)
	const waiters = 6
	for range 50 {
		got := make(chan error, waiters)
		for range waiters {
			b.recv(t, 1, 0, 64)
			go func() {
				ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
				defer cancel()
				var wc [1]verbs.WC
				for {
					if err := b.cq.Wait(ctx); err != nil {
						got <- err
						return
					}
					if n, err := b.cq.Poll(wc[:]); n == 1 || err != nil {
						got <- err
						return
					}
				}
			}()
		}
		time.Sleep(time.Millisecond)
		send := verbs.SendWR{Op: verbs.OpSend}
		a.post(t, send, send, send, send, send)
		a.post(t, send)
		for range waiters {
			if err := <-got; err != nil {
				t.Fatal(err)
			}
		}
	}
}

// Atomics on unaligned words are refused. For atomics of both sides and of CPUs on one word
// see TestAtomicsAgreeWithLocalAtomics.
func TestAtomicOnUnalignedWordIsRefused(t *testing.T) {
	a, b := ends{a: "127.7.3.1", b: "127.7.3.2", qp: verbs.QPConfig{Type: verbs.RC}}.pair(t)
	if uintptr(unsafe.Pointer(&b.buf[0]))%8 != 0 {
		t.Fatal("buffer is not aligned")
	}
	a.post(t, verbs.SendWR{Op: verbs.OpFetchAdd, Add: 1, Flags: verbs.Signaled, SGL: []verbs.SGE{a.mr.SGE(0, 8)}, RemoteAddr: b.mr.Addr() + 4, RKey: b.mr.RKey()})
	if wc := a.one(t); wc.Status != verbs.RemInvReqErr {
		t.Fatalf("status %v", wc.Status)
	}
}
