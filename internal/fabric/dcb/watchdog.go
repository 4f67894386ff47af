package dcb

import (
	"math/bits"

	"softrdma/internal/reason"
)

// A Watchdog ends pauses that do not end: those of a neighbor that is broken, and those of a cycle
// of links that wait for each other.
type Watchdog struct {
	Detect  Time // a queue that has been paused for so long is in a storm; 0 turns the watchdog off
	Restore Time // a storm ends when the neighbor has not paused for so long; Detect if 0
	Forward bool // during a storm the port sends in spite of pauses; otherwise it drops
}

// watch is a port's watchdog.
type watch struct {
	blocked uint8 // queues that are paused and have frames
	storms  uint8
	next    Time
}

// waits notes that a queue may be blocked.
func (w *watch) waits(p *Port, now Time, i uint8) {
	bit := uint8(1) << i
	if p.config.Watchdog.Detect == 0 || p.pauses.paused&p.ready&bit == 0 || (w.blocked|w.storms)&bit != 0 {
		return
	}
	w.blocked |= bit
	p.lanes[i].stuck = now
	w.next = min(w.next, now+p.config.Watchdog.Detect)
}

// moved notes that a frame of a queue has left, that it is empty, or that its pause has ended.
func (w *watch) moved(p *Port, i uint8) {
	if w.blocked&(1<<i) != 0 {
		w.blocked &^= 1 << i
		w.schedule(p)
	}
}

// seen notes that the neighbor pauses a priority, or ends its pause.
func (w *watch) seen(p *Port, now Time, i uint8) {
	if w.storms&(1<<i) != 0 {
		p.lanes[i].storms = now
		w.schedule(p)
	}
}

// forwards reports whether a priority is in a storm and sends in spite of it.
func (w *watch) forwards(p *Port, i uint8) bool {
	return w.storms&(1<<i) != 0 && p.config.Watchdog.Forward
}

func (w *watch) restore(p *Port) Time {
	if p.config.Watchdog.Restore == 0 {
		return p.config.Watchdog.Detect
	}
	return p.config.Watchdog.Restore
}

func (w *watch) schedule(p *Port) {
	w.next = Never
	for set := w.blocked; set != 0; set &= set - 1 {
		w.next = min(w.next, p.lanes[bits.TrailingZeros8(set)].stuck+p.config.Watchdog.Detect)
	}
	for set := w.storms; set != 0; set &= set - 1 {
		w.next = min(w.next, p.lanes[bits.TrailingZeros8(set)].storms+w.restore(p))
	}
}

// Watch runs the watchdog. It returns the priorities whose frames are to be dropped: those in a
// storm, unless the watchdog lets them pass.
func (p *Port) Watch(now Time) (drop uint8) {
	w := &p.watch
	if w.next <= now {
		for set := w.blocked; set != 0; set &= set - 1 {
			i := uint8(bits.TrailingZeros8(set))
			if now-p.lanes[i].stuck < p.config.Watchdog.Detect {
				continue
			}
			w.blocked &^= 1 << i
			w.storms |= 1 << i
			p.lanes[i].storms = now
			p.lanes[i].Storms++
			if p.config.Watchdog.Forward {
				p.pauses.end(p, now, i)
			}
		}
		for set := w.storms; set != 0; set &= set - 1 {
			i := uint8(bits.TrailingZeros8(set))
			if now-p.lanes[i].storms >= w.restore(p) {
				w.storms &^= 1 << i
				w.waits(p, now, i)
			}
		}
		w.schedule(p)
	}
	return p.Storms()
}

// Storms returns the priorities in a storm whose frames are to be dropped.
func (p *Port) Storms() uint8 {
	if p.config.Watchdog.Forward {
		return 0
	}
	return p.watch.storms
}

// StormDetail is the reason for which frames of a storm are dropped.
func (p *Port) StormDetail(now Time, priority uint8) reason.Detail {
	return reason.Detail{Reason: reason.EthernetPauseStorm, Expected: uint64(p.config.Watchdog.Detect / Nanosecond),
		Found: uint64((now - p.lane(priority).stuck) / Nanosecond)}
}
