package verbs_test

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"softrdma/verbs"
)

const (
	manyRounds = 8
	manySlot   = 8 << 10
)

// 64 queue pairs between two devices, with a goroutine at each end that posts and waits:
// messages of all kinds at the same time, and every byte in its place.
func TestManyQueuePairsAtOnce(t *testing.T) {
	for _, lanes := range []int{1, 2} {
		t.Run(fmt.Sprintf("lanes %d", lanes), func(t *testing.T) { manyAtOnce(t, lanes) })
	}
}

func manyAtOnce(t *testing.T, lanes int) {
	const qps, each = 64, 2 * manyRounds * manySlot
	e := ends{size: qps * each, qp: verbs.QPConfig{Type: verbs.RC}, lanes: lanes}
	a, b := e.side(t, "127.7.6.1"), e.side(t, "127.7.6.2")
	var all sync.WaitGroup
	for i := range qps {
		x, y := a.again(t, i), b.again(t, i)
		x.peer, y.peer = y, x
		e.join(t, x, y)
		all.Go(func() { x.talk(t, i*each, true) })
		all.Go(func() { y.talk(t, i*each, false) })
	}
	ended := make(chan struct{})
	go func() { all.Wait(); close(ended) }()
	select {
	case <-ended:
	case <-time.After(2 * time.Minute):
		stacks := make([]byte, 1<<20)
		t.Errorf("still talking:\n%s", stacks[:runtime.Stack(stacks, true)])
	}
	for _, d := range []*verbs.Device{a.dev, b.dev} {
		if n := counter(d, "PACKET_ICRC"); n != 0 {
			t.Errorf("%d packets with a wrong ICRC", n)
		}
		for name, n := range d.Counters() {
			t.Logf("%v: %s %d", d.Addr(), name, n)
		}
	}
}

// again makes another queue pair on s's device with s's memory and a separate completion
// queue.
func (s *side) again(t *testing.T, i int) *side {
	t.Helper()
	n := *s
	var err error
	if n.cq, err = s.dev.CreateCQ(verbs.CQConfig{}); err != nil {
		t.Fatal(err)
	}
	cfg := verbs.QPConfig{Type: verbs.RC, SendCQ: n.cq, MaxSend: 1 + i%8, MaxRecv: 4}
	if n.qp, err = s.pd.CreateQP(cfg); err != nil {
		t.Fatal(err)
	}
	return &n
}

// talk exchanges messages. In each round the first end fills a slot and WRITEs it, then SENDs
// a word that announces it. The other end compares, READs the slot into the next one, compares
// and answers with a SEND.
func (s *side) talk(t *testing.T, at int, first bool) {
	fail := func(err error) bool {
		if err != nil {
			t.Errorf("queue pair %#06x of %v: %v", s.qp.Number(), s.dev.Addr(), err)
		}
		return err != nil
	}
	for r := range manyRounds {
		from := at + 2*r*manySlot
		n := 1 + (at/7+r*1999)%manySlot
		w := verbs.SendWR{Op: verbs.OpWrite, SGL: []verbs.SGE{s.mr.SGE(from, n)}, RemoteAddr: s.peer.mr.Addr() + uint64(from), RKey: s.peer.mr.RKey()}
		if fail(s.qp.PostRecv(verbs.RecvWR{})) {
			return
		}
		if first {
			fill(s.buf[from:from+n], uint64(from))
			if fail(s.done(w)) || fail(s.done(verbs.SendWR{Op: verbs.OpSend})) || fail(s.next(verbs.WCRecv)) {
				return
			}
			continue
		}
		w.Op, w.SGL[0] = verbs.OpRead, s.mr.SGE(from+manySlot, n)
		if fail(s.next(verbs.WCRecv)) || fail(s.done(w)) {
			return
		}
		want := make([]byte, n)
		fill(want, uint64(from))
		if !bytes.Equal(s.buf[from:from+n], want) || !bytes.Equal(s.buf[from+manySlot:from+manySlot+n], want) {
			t.Errorf("queue pair %#06x, round %d: other bytes", s.qp.Number(), r)
			return
		}
		if fail(s.done(verbs.SendWR{Op: verbs.OpSend})) {
			return
		}
	}
}

// done posts a request and waits until it has completed.
func (s *side) done(w verbs.SendWR) error {
	w.Flags |= verbs.Signaled
	if err := s.qp.PostSend(w); err != nil {
		return err
	}
	op := verbs.WCSend
	switch w.Op {
	case verbs.OpWrite:
		op = verbs.WCWrite
	case verbs.OpRead:
		op = verbs.WCRead
	}
	return s.next(op)
}

// next waits for the next completion, which must be of op.
func (s *side) next(op verbs.WCOp) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for wc := [1]verbs.WC{}; ; {
		n, err := s.cq.Poll(wc[:])
		switch {
		case err != nil:
			return err
		case n == 1 && wc[0].Err() != nil:
			return wc[0].Err()
		case n == 1 && wc[0].Op != op:
			return fmt.Errorf("completion of operation %d, expected %d", wc[0].Op, op)
		case n == 1:
			return nil
		}
		if err := s.cq.Wait(ctx); err != nil {
			return fmt.Errorf("no completion of operation %d: %w", op, err)
		}
	}
}

// Requests posted to many queue pairs are sent although the program no longer polls.
func TestMessagesOfManyQueuePairsNeedNoPoll(t *testing.T) {
	const qps, size = 100, 4 << 10
	e := ends{size: size, qp: verbs.QPConfig{Type: verbs.RC, MaxSend: 1, MaxRecv: 1}}
	a, b := e.side(t, "127.7.6.3"), e.side(t, "127.7.6.4")
	var from []*verbs.QP
	for range qps {
		x, y := *a, *b
		var err error
		for _, s := range []*side{&x, &y} {
			cfg := e.qp
			cfg.SendCQ = s.cq
			if s.qp, err = s.pd.CreateQP(cfg); err != nil {
				t.Fatal(err)
			}
		}
		e.join(t, &x, &y)
		y.recv(t, 0, 0, size)
		from = append(from, x.qp)
	}
	if _, err := a.cq.Poll(make([]verbs.WC, 1)); err != nil { // and the lane's goroutine stays away for a while
		t.Fatal(err)
	}
	for _, q := range from {
		if err := q.PostSend(verbs.SendWR{Op: verbs.OpSend, SGL: []verbs.SGE{a.mr.SGE(0, size)}}); err != nil {
			t.Fatal(err)
		}
	}
	for range qps {
		b.ok(t, verbs.WCRecv)
	}
}
