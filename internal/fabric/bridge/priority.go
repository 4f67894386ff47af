package bridge

import "softrdma/internal/fabric/dcb"

// RaisePriorities returns code points for Config.Remark that raise the priorities from first on by one
// with each switch, up to last, which stays. A frame then waits for room of a higher priority only, so
// that pauses cannot wait for each other in a circle on paths of at most last-first+1 switches.
func RaisePriorities(first, last uint8) *[64]uint8 {
	t := new([64]uint8)
	for i := range t {
		t[i] = uint8(i)
		if p := uint8(i) >> 3; p >= first && p < last {
			t[i] += 1 << 3
		}
	}
	return t
}

// PriorityOf returns the priority of a routed frame with a code point that arrives at a port.
func (s *Switch) PriorityOf(number int, dscp uint8) uint8 {
	return s.priority(&s.ports[number], &dcb.Frame{IP: true, DSCP: dscp})
}

// Remarked returns the code point with which a routed frame leaves.
func (s *Switch) Remarked(dscp uint8) uint8 {
	if s.config.Remark == nil {
		return dscp
	}
	return s.config.Remark[dscp&0x3f] & 0x3f
}
