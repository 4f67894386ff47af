package stream

import (
	"time"

	"softrdma/internal/iwarp"
	"softrdma/internal/link"
)

// setFaults puts the device's rules for packets in front of a connection, if there are any.
func (c *Stream) setFaults() {
	x := c.s.Host.Faults()
	c.unruled = false
	if c.faulty = nil; !x.OnSent() && !x.OnReceived() {
		return
	}
	c.faulty = &faulty{Stream: c.conn, rules: x, host: c.s.Host, qpn: c.qpn}
	c.faulty.in.received = true
	c.conn = c.faulty
}

// FaultsChanged lets new rules for packets apply to the streams that there are, from their next FPDUs on.
func (s *Set) FaultsChanged() {
	_ = s.Host.Do(func(now time.Duration) error { // a closed device has no streams
		for c := range s.open {
			c.unruled = c.faulty == nil && c.conn != nil
			c.rule(now)
		}
		return nil
	})
}

// rule puts rules that have come since the stream began in front of its connection, where one FPDU ends and the
// next begins. Until it can, the stream calls it again.
func (c *Stream) rule(now time.Duration) {
	if !c.unruled {
		return
	}
	at, ok := c.m.Framing()
	if !ok {
		return
	}
	if c.setFaults(); c.faulty != nil {
		c.faulty.join(now, &at)
	}
}

// join begins in the middle of a stream.
func (f *faulty) join(now time.Duration, at *iwarp.Framing) {
	f.now = now
	f.out = half{started: true, crc: at.CRC, markers: at.SendMarkers, pos: at.Sent}
	f.in = half{received: true, started: true, crc: at.CRC, markers: at.ReceiveMarkers, pos: at.Received}
	f.in.skip = f.in.marked(at.Rest)
}

// raw is the connection without faults.
func (c *Stream) raw() link.Stream {
	if c.faulty != nil {
		return c.faulty.Stream
	}
	return c.conn
}

// expire lets the stream continue with what is due.
func (c *Stream) expire(now time.Duration) {
	f := c.faulty
	if f == nil {
		return
	}
	if f.in.due() <= now {
		f.in.woken, c.readable = true, true
		c.queue()
	}
	if f.out.due() <= now {
		f.out.woken = true
		c.s.Tasks.Push(&c.entry)
	}
}

// flush sends what has waited and is due. It comes before all else that the stream sends.
func (c *Stream) flush(now time.Duration) {
	f := c.faulty
	if f == nil || c.closed || c.dialing {
		return
	}
	f.now = now
	full := f.out.bytes >= maxLate
	if err := f.flush(); err != nil {
		c.unsendable(err)
	} else if full && f.out.bytes < maxLate {
		c.writable = true
	}
}

// adopted notes the request that has come before the connection.
func (f *faulty) adopted(request []byte) {
	if f != nil {
		f.start(&f.in, request)
	}
}
