package dcb

import (
	"math/bits"

	"softrdma/internal/wire/ethernet"
)

// pauses are those that the neighbor asks for.
type pauses struct {
	paused  uint8
	until   [ethernet.Priorities]Time
	since   [ethernet.Priorities]Time
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
	p.Counters.Control++
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
		p.Counters.PausesReceived[bits.TrailingZeros8(set)]++
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
		quanta := k.quanta[i]
		if quanta == 0 {
			s.end(now, i, &p.Counters)
			continue
		}
		if s.paused&(1<<i) == 0 {
			s.paused |= 1 << i
			s.since[i] = now
		}
		s.until[i] = now + p.config.Speed.Quanta(int(quanta))
		p.watch.waits(p, now, i)
	}
}

func (s *pauses) end(now Time, i uint8, c *Counters) {
	if s.paused&(1<<i) != 0 {
		s.paused &^= 1 << i
		c.Paused[i] += now - s.since[i]
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
		if i := uint8(bits.TrailingZeros8(set)); s.until[i] <= now {
			s.end(s.until[i], i, &p.Counters)
		}
	}
}

func (s *pauses) deadline(p *Port) Time {
	at := Never
	if len(s.pending) > 0 {
		at = s.pending[0].at
	}
	for set := s.paused & p.ready; set != 0; set &= set - 1 {
		at = min(at, s.until[bits.TrailingZeros8(set)])
	}
	return at
}

func (s *pauses) clear(now Time, c *Counters) {
	for i := range uint8(ethernet.Priorities) {
		s.end(now, i, c)
	}
	s.pending = s.pending[:0]
}

// Halted returns the priorities that the neighbor has paused.
func (p *Port) Halted() uint8 { return p.pauses.paused }

// HaltedSince returns since when a priority is paused.
func (p *Port) HaltedSince(priority uint8) Time { return p.pauses.since[priority] }

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

// renew tells everything again: the neighbor is a new one.
func (s *stop) renew(c *PortConfig) {
	s.refresh = Never
	if s.tell = s.off; c.Pause == WholeLink && s.off != 0 {
		s.tell = 0xff
	}
}

// frame makes the frame that pauses. It repeats all pauses, so that they end together.
func (s *stop) frame(p *Port, now Time) *Frame {
	f := p.pool.Frame()
	f.Dst, f.Src, f.Len, f.Op = AddressOf(ethernet.ControlMAC), p.address, MinFrame, ethernet.OpPFC
	quanta := p.config.Quanta
	if quanta == 0 {
		quanta = ethernet.MaxQuanta
	}
	off := s.off
	if p.config.Pause == WholeLink {
		f.Op, f.Enable = ethernet.OpPause, 0xff
		if off != 0 {
			off = 0xff
		}
	} else {
		f.Enable = s.tell | off
	}
	for set := off; set != 0; set &= set - 1 {
		i := bits.TrailingZeros8(set)
		f.Quanta[i] = quanta
		p.Counters.PausesSent[i]++
	}
	p.Counters.ControlSent++
	s.tell, s.refresh = 0, Never
	if off != 0 {
		s.refresh = now + p.config.Speed.Quanta(int(quanta))/2
	}
	return f
}
