package waiting

import (
	"context"
	"runtime"
	"sync"
	"time"
)

// A Waiter is a goroutine that waits for something that arrives. The engine's lock guards it.
type Waiter struct {
	Ready  bool
	parked int // place in Group.parked, from 1; 0 if it is not parked
	wake   chan struct{}
}

// A Group is the goroutines of a client that wait for one engine. One of them leads: it polls, and
// then sleeps on the completion channel, for all of them. Nothing else stands between a packet and
// the goroutine that waits for it. While no goroutine waits, idle leads after a while.
type Group struct {
	e       Queue
	leading bool
	idling  bool // in idle
	parked  []*Waiter
	asleep  bool // the leader sleeps on the channel
	stale   bool // the channel may have an event
	calls   int  // how often Await was called
	until   context.Context
	wake    context.CancelFunc
}

func New(q Queue) Group {
	k := Group{e: q}
	k.until, k.wake = context.WithCancel(context.Background())
	return k
}

// A Queue is a completion queue with the lock that guards it.
type Queue interface {
	sync.Locker
	Progress() int                  // handles completions, and returns their number
	Arm()                           // asks for an event at the next completion
	Next(ctx context.Context) error // waits for the event; if ctx has not ended, without the lock
	Dead() error                    // why nothing arrives any more, nil if that is not so
	Fail(err error)                 // makes the queue dead
	Spin() time.Duration            // how long to poll before a sleep
}

// Await waits until w is ready or ctx ends. The caller holds the engine's lock, before and after.
func (k *Group) Await(ctx context.Context, w *Waiter) error {
	k.calls++
	slept := false
	for !w.Ready {
		if err := ctx.Err(); err != nil {
			k.relay(slept)
			return err
		}
		if k.idling {
			k.wake()
		}
		if !k.leading {
			k.leading = true
			k.Lead(ctx, w)
			k.leading = false
			k.pass()
			continue
		}
		k.park(ctx, w)
		slept = true
	}
	k.relay(slept)
	return nil
}

// relay passes the lead on if the caller was woken to take it, and does not need it any more.
func (k *Group) relay(slept bool) {
	if slept && !k.leading {
		k.pass()
	}
}

func (k *Group) park(ctx context.Context, w *Waiter) {
	if w.wake == nil {
		w.wake = make(chan struct{}, 1)
	}
	k.parked = append(k.parked, w)
	w.parked = len(k.parked)
	k.e.Unlock()
	select {
	case <-w.wake:
	case <-ctx.Done():
	}
	k.e.Lock()
	k.unpark(w)
	select {
	case <-w.wake:
	default:
	}
}

func (k *Group) unpark(w *Waiter) {
	if w.parked == 0 {
		return
	}
	last := k.parked[len(k.parked)-1]
	k.parked[w.parked-1] = last
	last.parked = w.parked
	k.parked[len(k.parked)-1] = nil
	k.parked = k.parked[:len(k.parked)-1]
	w.parked = 0
}

// Renew forgets a waiter's last result. No goroutine may be waiting for it.
func (w *Waiter) Renew() { *w = Waiter{wake: w.wake} }

// Wake ends the sleep of the leader.
func (k *Group) Wake() { k.wake() }

// Signal makes w ready. The caller holds the lock.
func (k *Group) Signal(w *Waiter) {
	w.Ready = true
	switch {
	case w.parked > 0:
		k.unpark(w)
		w.wake <- struct{}{} // has room: only parked waiters are woken, once
	case k.asleep: // it may be the leader's
		k.wake()
	}
}

// pass wakes a waiter, so that it leads.
func (k *Group) pass() {
	if len(k.parked) > 0 {
		w := k.parked[0]
		k.unpark(w)
		w.wake <- struct{}{}
	}
}

// Lead makes progress until w is ready, for a short time, and then sleeps until something has
// happened.
func (k *Group) Lead(ctx context.Context, w *Waiter) {
	if k.spin(ctx, w) {
		return
	}
	if k.e.Dead() != nil { // nothing arrives: the goroutine that ends the session signals
		until := k.until
		k.asleep = true
		k.e.Unlock()
		select {
		case <-until.Done():
		case <-ctx.Done():
		}
		k.e.Lock()
		k.asleep = false
		k.renew()
		return
	}
	if k.arm(w) {
		return
	}
	if ctx.Done() != nil {
		defer context.AfterFunc(ctx, k.wake)() // the until of this sleep
	}
	k.sleep()
}

// spin polls for a short time. It reports whether w is ready, or ctx has ended.
func (k *Group) spin(ctx context.Context, w *Waiter) bool {
	k.e.Progress()
	for s := (Spin{For: k.e.Spin(), Every: 16}); !w.Ready; {
		if !s.More() {
			return false
		}
		if s.timed() && ctx.Err() != nil {
			return true
		}
		k.e.Unlock()
		runtime.Gosched()
		k.e.Lock()
		k.e.Progress()
	}
	return true
}

// past is a context that has ended.
var past = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// arm asks for an event. It reports whether w is ready.
func (k *Group) arm(w *Waiter) bool {
	if k.stale {
		_ = k.e.Next(past) // removes the event, if there is one
		k.stale = false
	}
	k.e.Arm()
	if k.e.Progress(); w.Ready {
		k.stale = true
	}
	return w.Ready
}

// sleep waits for the event, or for wake.
func (k *Group) sleep() {
	until := k.until
	k.asleep = true
	k.e.Unlock()
	err := k.e.Next(until)
	k.e.Lock()
	k.asleep = false
	switch {
	case err == nil:
	case until.Err() != nil:
		k.stale = true
	case k.e.Dead() == nil:
		k.e.Fail(err)
	}
	k.renew()
	k.e.Progress()
}

func (k *Group) renew() {
	if k.until.Err() != nil {
		k.until, k.wake = context.WithCancel(context.Background())
	}
}

// idleAfter is how long there must be no waiter before idle sleeps on the completion channel.
const idleAfter = 5 * time.Millisecond

// Idle makes progress while there is no waiter, until ctx ends. A goroutine on the completion channel
// delays those who poll, so it goes there only when there were no calls for a while, and leaves
// when one begins.
func (k *Group) Idle(ctx context.Context) {
	defer context.AfterFunc(ctx, func() {
		k.e.Lock()
		defer k.e.Unlock()
		k.wake()
	})()
	t := time.NewTicker(idleAfter)
	defer t.Stop()
	calls := -1
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		k.e.Lock()
		for ctx.Err() == nil && !k.leading && k.calls == calls && k.e.Dead() == nil {
			t.Stop()
			k.leading, k.idling = true, true
			if never := (Waiter{}); !k.arm(&never) {
				k.sleep()
			}
			k.leading, k.idling = false, false
			k.pass()
			t.Reset(idleAfter)
		}
		calls = k.calls
		k.e.Unlock()
	}
}
