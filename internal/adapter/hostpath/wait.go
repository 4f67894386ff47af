package hostpath

import (
	"time"

	"softrdma/internal/link"
	"softrdma/internal/link/hostmem"
)

// Watch makes bells by which peers wake the lane, and returns a waiter that waits for them and
// for the lane's link. It returns the link itself if there can be no bells: then HostBell of the
// device fails, and packets take the network. Watch is called before the lane is used.
func (l *Lane) Watch(w link.Packets) link.Waiter {
	watcher := w.Capabilities().Watcher
	if watcher == nil {
		return w
	}
	b, err := hostmem.NewBells()
	if err != nil {
		return w
	}
	l.Bells = b
	watcher.Watch(b.FD())
	return waiter{w, l}
}

// A waiter is a lane's link that also waits for peers on this host.
type waiter struct {
	link.Waiter
	lane *Lane
}

func (w waiter) Wait(d time.Duration) error { return w.lane.Wait(w.Waiter, d) }

// A Sleeper is the lane's link as far as it sleeps.
type Sleeper interface{ Wait(d time.Duration) error }

// Wait sleeps in the link until a message or a packet comes, or what else ends the
// link's Wait. It takes no lock of the lane. The rings that are polled are armed before:
// a peer that publishes afterwards rings a bell, which the link watches, and what was
// published before is found by arming.
func (l *Lane) Wait(link Sleeper, d time.Duration) error {
	if !l.fallAsleep() {
		return nil
	}
	err := link.Wait(d)
	l.disarm()
	return err
}

func (l *Lane) fallAsleep() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sleeping = l.arm()
	return l.sleeping
}

// arm arms the rings that are polled, and reports whether all are empty.
func (l *Lane) arm() bool {
	for _, r := range l.polled {
		if !r.Arm() {
			l.disarmAll()
			return false
		}
	}
	return true
}

func (l *Lane) disarm() {
	l.slept.Store(true)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sleeping = false
	l.disarmAll()
}

func (l *Lane) disarmAll() {
	for _, r := range l.polled {
		r.Disarm()
	}
}
