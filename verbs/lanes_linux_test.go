package verbs_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"softrdma/verbs"
)

// Two queue pairs on different lanes share one completion channel. A waiter gets the events of
// both, and of either one without a packet for the other.
func TestWaiterGetsEventsOfEveryLane(t *testing.T) {
	e := ends{qp: verbs.QPConfig{Type: verbs.RC}, lanes: 2}
	a, b := e.side(t, "127.7.7.1"), e.side(t, "127.7.7.2")
	ch, err := b.dev.CreateCompChannel()
	if err != nil {
		t.Fatal(err)
	}
	var from, to [2]*side
	for i := range to {
		end := *b
		from[i], to[i] = a.again(t, i), &end
		from[i].peer, to[i].peer = to[i], from[i]
		if to[i].cq, err = b.dev.CreateCQ(verbs.CQConfig{Channel: ch}); err != nil {
			t.Fatal(err)
		}
		e.qp = verbs.QPConfig{Type: verbs.RC, SendCQ: to[i].cq}
		if to[i].qp, err = b.pd.CreateQP(e.qp); err != nil {
			t.Fatal(err)
		}
		e.join(t, from[i], to[i])
		to[i].cq.Arm(false)
	}
	if to[0].qp.Number()%2 == to[1].qp.Number()%2 {
		t.Fatal("both queue pairs are on one lane")
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for round := range 300 {
		x := (round ^ round/7) % 2
		if err := to[x].qp.PostRecv(verbs.RecvWR{}); err != nil {
			t.Fatal(err)
		}
		var sent sync.WaitGroup
		sent.Go(func() {
			if err := from[x].done(verbs.SendWR{Op: verbs.OpSend}); err != nil {
				t.Error(err)
			}
		})
		cq, err := ch.Next(ctx)
		if err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		var wc [4]verbs.WC
		n, err := cq.Poll(wc[:])
		if cq != to[x].cq || err != nil || n != 1 {
			t.Fatalf("round %d: event of the other queue %v, %d completions, %v", round, cq != to[x].cq, n, err)
		}
		cq.Arm(false)
		sent.Wait()
	}
}

// Objects of every lane are destroyed while others work, and leave nothing behind.
func TestLanesAreTornDownDuringTraffic(t *testing.T) {
	before := use()
	e := ends{qp: verbs.QPConfig{Type: verbs.RC}, lanes: 3}
	a, b := e.side(t, "127.7.7.3"), e.side(t, "127.7.7.4")
	var all sync.WaitGroup
	for i := range 6 {
		all.Go(func() {
			for range 20 {
				x, y := a.again(t, i), b.again(t, i)
				x.peer, y.peer = y, x
				e.join(t, x, y)
				if err := y.qp.PostRecv(verbs.RecvWR{}); err != nil {
					t.Error(err)
				}
				mr, err := x.pd.RegisterMemory(make([]byte, 4096), allRights)
				if err != nil {
					t.Error(err)
					return
				}
				err = errors.Join(x.done(verbs.SendWR{Op: verbs.OpSend, SGL: []verbs.SGE{mr.SGE(0, 0)}}), y.next(verbs.WCRecv),
					mr.Deregister(), x.qp.Destroy(), x.cq.Destroy(), y.qp.Destroy(), y.cq.Destroy())
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	for _, s := range []*side{a, b} {
		if err := s.dev.Close(); err != nil {
			t.Error(err)
		}
	}
	noLeak(t, before)
}

func TestUnsupportedLanesAreRefused(t *testing.T) {
	if d, err := verbs.Open("iwarp:127.7.7.5", verbs.Config{Lanes: 2}); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("iWARP: %v, %v", d, err)
	}
	if d, err := verbs.Open("127.7.7.5", verbs.Config{Lanes: 65}); err == nil {
		_ = d.Close()
		t.Error("65 lanes were opened")
	}
}
