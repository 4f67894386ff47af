package cm

import "time"

// enterTimewait waits until late packets of the queue pair are gone (IBTA 12.9.8.4): for the
// acknowledge timeout, which is the peer's ACK delay and twice the packet life time
// (ackTimeout), within the limits of halfopen.go. Meanwhile the peer may use its queue pair
// again, but a late duplicate of its REQ is still recognized.
func (c *Conn) enterTimewait(now time.Duration) {
	limit := maxTimewait
	if c.half {
		limit = shortTimewait
	}
	c.waiting = nil
	c.decided()
	c.leaveHalfOpen()
	c.leaveQPNs()
	c.leaveCrossing()
	c.state = Timewait
	c.m.timers.set(&c.timer, now+min(duration(c.ack), limit))
}
