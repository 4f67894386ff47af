package drive

import "time"

// postponeShare is the ratio of the worker's pause to the interval at which pollers postpone
// its end.
const postponeShare = 4

// A pauser lets the worker pause. Only the worker waits; any goroutine calls the rest.
type pauser interface {
	// reset lets the pause end after a time, and not when it would have before.
	reset(t time.Duration)

	// stop lets only resume end the pause.
	stop()

	// resume ends the present wait, or the next. A reset at the same time may postpone that.
	resume()

	wait()

	// close releases what the pauser has. The worker is the last that uses it.
	close()
}

// A goPauser is a pauser on Go's timers.
type goPauser struct {
	timer   *time.Timer
	resumed chan struct{}
}

func newGoPauser() *goPauser {
	return &goPauser{timer: time.NewTimer(pollPause), resumed: make(chan struct{}, 1)}
}

func (p *goPauser) reset(t time.Duration) { p.timer.Reset(t) }

func (p *goPauser) stop() { p.timer.Stop() }

func (p *goPauser) resume() {
	select {
	case p.resumed <- struct{}{}:
	default:
	}
}

func (p *goPauser) wait() {
	select {
	case <-p.resumed:
	case <-p.timer.C:
	}
}

func (p *goPauser) close() { p.timer.Stop() }

// postpone prolongs the worker's pause while a program polls: it ends when none has for the
// time that pauseAfter gives. Without that the worker would wake after each pause to see
// whether a program polls, and take the processor from the poller each time.
func (d *Driver) postpone(now time.Duration) {
	at := d.postponeAt.Load()
	if int64(now) < at {
		return
	}
	t := pauseAfter(now-time.Duration(d.since.Load()), pollPause)
	if !d.postponeAt.CompareAndSwap(at, int64(now+t/postponeShare)) {
		return
	}
	if d.deferred.Swap(false) {
		d.endSoon(now)
		return
	}
	d.deferAt.Store(0)
	d.pauser.reset(t)
	if d.deferred.Swap(false) { // before the timer was set
		d.endSoon(now)
	}
}

// endSoon lets the worker's pause end after pollPause, unless pollers postpone that. What is
// deferred in the first half of that time need not set the timer, which is a system call.
func (d *Driver) endSoon(now time.Duration) {
	soon := int64(now + pollPause/2)
	d.deferAt.Store(soon)
	if at := d.postponeAt.Load(); at != int64(never) {
		d.postponeAt.CompareAndSwap(at, soon)
	}
	d.pauser.reset(pollPause)
}
