package dcb

import (
	"math/bits"

	"softrdma/internal/wire/ethernet"
)

// pauses are those that the neighbor asks for.
type pauses struct {
	paused  uint8
	pending []pending // in the order of their times
}

// A pending is a frame that pauses, before the port reacts to it.
type pending struct {
	at     Time
	enable uint8
	quanta [ethernet.Priorities]uint16
}

// Paused takes a frame that pauses, whose last byte arrives now. The port reacts to it after
// PortConfig.Response. It keeps nothing of the frame. A port without flow control ignores it.
func (p *Port) Paused(now Time, f *Frame) {
	p.Control.Received++
	enable := f.Enable
	switch p.config.Pause {
	case NoPause:
		return
	case ByClass:
		if f.Op != ethernet.OpPFC {
			return
		}
		enable &= p.config.Lossless // 802.1Q 36.1.3.3: others are ignored
	case WholeLink:
		if f.Op != ethernet.OpPause {
			return
		}
		enable = 0xff
	}
	for set := enable; set != 0; set &= set - 1 {
		p.lane(uint8(bits.TrailingZeros8(set))).PausesReceived++
	}
	k := pending{now + p.config.Response, enable, f.Quanta}
	if len(p.pauses.pending) == 0 && k.at <= now {
		p.pauses.apply(p, now, &k)
		return
	}
	p.pauses.pending = append(p.pauses.pending, k)
}

// apply pauses priorities or ends their pauses (802.3 31D.3.2).
func (s *pauses) apply(p *Port, now Time, k *pending) {
	for set := k.enable; set != 0; set &= set - 1 {
		i := uint8(bits.TrailingZeros8(set))
		if p.watch.seen(p, now, i); p.watch.forwards(p, i) {
			continue
		}
		quanta, l := k.quanta[i], p.lane(i)
		if quanta == 0 {
			s.end(p, now, i)
			continue
		}
		if s.paused&(1<<i) == 0 {
			s.paused |= 1 << i
			l.since = now
		}
		if l.until = Never; !p.config.Lasting {
			l.until = now + p.config.Speed.Quanta(int(quanta))
		}
		p.watch.waits(p, now, i)
	}
}

func (s *pauses) end(p *Port, now Time, i uint8) {
	if s.paused&(1<<i) != 0 {
		s.paused &^= 1 << i
		p.lanes[i].Paused += now - p.lanes[i].since
		p.watch.moved(p, i)
	}
}

// run lets pauses begin and end that are due.
func (s *pauses) run(p *Port, now Time) {
	for len(s.pending) > 0 && s.pending[0].at <= now {
		k := s.pending[0]
		s.pending = s.pending[:copy(s.pending, s.pending[1:])]
		s.apply(p, k.at, &k)
	}
	for set := s.paused; set != 0; set &= set - 1 {
		if i := uint8(bits.TrailingZeros8(set)); p.lanes[i].until <= now {
			s.end(p, p.lanes[i].until, i)
		}
	}
}

func (s *pauses) deadline(p *Port) Time {
	at := Never
	if len(s.pending) > 0 {
		at = s.pending[0].at
	}
	for set := s.paused & p.ready; set != 0; set &= set - 1 {
		at = min(at, p.lanes[bits.TrailingZeros8(set)].until)
	}
	return at
}

func (s *pauses) clear(p *Port, now Time) {
	for i := range uint8(ethernet.Priorities) {
		s.end(p, now, i)
	}
	s.pending = s.pending[:0]
}

// Halted returns the priorities that the neighbor has paused.
func (p *Port) Halted() uint8 { return p.pauses.paused }

// HaltedSince returns since when a priority is paused, which it is.
func (p *Port) HaltedSince(priority uint8) Time { return p.lane(priority).since }

// A stop is what a port has told its neighbor.
type stop struct {
	off     uint8 // priorities that the neighbor is to pause
	tell    uint8 // of which it does not know yet
	refresh Time  // when to repeat it
}

// Stop asks the neighbor to pause a priority, until Go.
func (p *Port) Stop(priority uint8) { p.stop.set(p, p.stop.off|1<<priority) }

// Go ends Stop.
func (p *Port) Go(priority uint8) { p.stop.set(p, p.stop.off&^(1<<priority)) }

// Telling reports whether a pause, or the end of one, has not left yet: the port may be sending another frame.
func (p *Port) Telling() bool { return p.stop.tell != 0 }

// Stopped returns the priorities that the neighbor is asked to pause.
func (p *Port) Stopped() uint8 { return p.stop.off }

func (s *stop) set(p *Port, off uint8) {
	changed := off ^ s.off
	switch p.config.Pause {
	case NoPause:
		return
	case WholeLink: // 802.3x has one pause for all
		if changed = 0; (off != 0) != (s.off != 0) {
			changed = 0xff
		}
	}
	s.off = off
	s.tell |= changed
}

// repeat tells the neighbor again what it is to pause, before its pause ends.
func (s *stop) repeat() {
	s.tell |= s.off
	if s.off == 0 {
		s.refresh = Never
	}
}

// configure follows a change of the configuration.
func (s *stop) configure(c *PortConfig) {
	if c.Pause == NoPause { // nothing would end the pauses
		*s = stop{refresh: Never}
	}
}

// renew tells everything again: the neighbor is a new one.
func (s *stop) renew(c *PortConfig) {
	s.refresh = Never
	if s.tell = s.off; c.Pause == WholeLink && s.off != 0 {
		s.tell = 0xff
	}
}

// quanta returns how long a pause lasts. It is repeated after half of that time, or when the frame has
// left that the port is sending then.
func (p *Port) quanta() uint16 {
	if p.config.Quanta == 0 {
		return ethernet.MaxQuanta
	}
	least := 2 * (WireLen(p.MTU()) + WireLen(MinFrame)) / quantum
	return max(p.config.Quanta, uint16(min(least+1, ethernet.MaxQuanta)))
}

// quantum is the bytes of a link that a quantum of a pause lasts (802.3 31B.2).
const quantum = 64

// frame makes the frame that pauses. It repeats all pauses, so that they end together.
func (s *stop) frame(p *Port, now Time) *Frame {
	f := p.pool.Frame()
	f.Dst, f.Src, f.Len, f.Op = AddressOf(ethernet.ControlMAC), p.address, MinFrame, ethernet.OpPFC
	quanta, off := p.quanta(), s.off
	if p.config.Pause == WholeLink {
		f.Op, f.Enable = ethernet.OpPause, 0xff
		if off != 0 {
			off = 0xff
		}
	} else {
		f.Enable = s.tell | off
	}
	for set := off; set != 0; set &= set - 1 {
		i := uint8(bits.TrailingZeros8(set))
		f.Quanta[i] = quanta
		p.lane(i).PausesSent++
	}
	p.Control.Sent++
	s.tell, s.refresh = 0, Never
	if off != 0 && !p.config.Lasting {
		s.refresh = now + p.config.Speed.Quanta(int(quanta))/2
	}
	return f
}
