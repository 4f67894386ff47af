package bridge

import (
	"softrdma/internal/fabric/dcb"
	"softrdma/internal/reason"
)

// bridge forwards a frame by its address (802.1Q 8.6).
func (s *Switch) bridge(now dcb.Time, vlan uint16, f *dcb.Frame) {
	out := 0
	if !f.Dst.Group() {
		if out = s.station(now, f); out == 0 {
			out = s.table.find(now, &s.config, vlan, f.Dst)
		}
	}
	in := int(f.In)
	if out != 0 {
		if out == in || !s.ports[out].carries(vlan) {
			s.drop(now, in, f, reason.Detail{Reason: reason.EthernetLoop, Expected: uint64(in), Found: uint64(f.Dst)})
			return
		}
		if s.admit(now, f) {
			s.push(now, out, vlan, f)
		}
		return
	}
	s.flood(now, vlan, f)
}

// Block makes a port neither send nor take flooded frames: links in a circle would multiply them.
func (s *Switch) Block(number int, block bool) { s.ports[number].blocked = block }

// flood sends a frame by each port of its VLAN but the one at which it arrived, and those that are
// blocked.
func (s *Switch) flood(now dcb.Time, vlan uint16, f *dcb.Frame) {
	in := int(f.In)
	p := &s.ports[in]
	if p.blocked {
		s.drop(now, in, f, reason.Detail{Reason: reason.EthernetLoop, Expected: uint64(in), Found: uint64(f.Dst)})
		return
	}
	if c := &p.config.Storm; c.Rate != 0 {
		full := max(p.storm, now) + dcb.Time(f.Len)*c.Rate.PerByte()
		if held := (full - now) / c.Rate.PerByte(); held > dcb.Time(c.Burst) {
			s.drop(now, in, f, reason.Detail{Reason: reason.EthernetStorm, Expected: uint64(c.Burst), Found: uint64(held)})
			return
		}
		p.storm = full
	}
	if !s.admit(now, f) {
		return
	}
	f.Hold()
	copies := 0
	for out := 1; out < len(s.ports); out++ {
		if q := &s.ports[out]; out != in && q.Up() && !q.blocked && q.carries(vlan) {
			s.push(now, out, vlan, s.pool.Copy(f))
			copies++
		}
	}
	if !f.Release() {
		return
	}
	if copies == 0 {
		s.drop(now, in, f, reason.Detail{Reason: reason.EthernetLoop, Expected: uint64(in), Found: uint64(f.Dst)})
		return
	}
	s.leave(f) // all copies were dropped
	s.pool.Put(f)
}
