package port

import (
	"iter"
	"time"
)

// An Origin is the buffer that a waiting packet occupies: that of the lane on which it
// arrived. Packets of the node itself have port 0.
type Origin struct {
	Port int
	VL   uint8
}

// Blocked returns since when the first packet of a data lane has lacked credit, and reports
// whether it does.
func (p *Port) Blocked(vl uint8) (since time.Duration, ok bool) {
	if int(vl) >= len(p.lanes) || p.lanes[vl].blocked < 0 {
		return 0, false
	}
	return p.lanes[vl].blocked, true
}

// Origins ranges over the packets that wait on a data lane, and yields the buffer that each
// occupies.
func (p *Port) Origins(vl uint8) iter.Seq[Origin] {
	if int(vl) >= len(p.lanes) {
		return func(func(Origin) bool) {}
	}
	return p.lanes[vl].queue.origins()
}

// Refused reports whether the host did not take the first packet of a lane.
func (h *Host) Refused(vl uint8) bool { return h.refused>>vl&1 != 0 }

// Queued returns the number of packets of a lane that the host has not taken.
func (h *Host) Queued(vl uint8) int { return h.lanes[vl].n }

// Origins is what Port.Origins is, for the packets that the host has not taken.
func (h *Host) Origins(vl uint8) iter.Seq[Origin] { return h.lanes[vl].origins() }

func (q *queue) origins() iter.Seq[Origin] {
	return func(yield func(Origin) bool) {
		for k := q.head; k != nil; k = k.next {
			if !yield(k.origin()) {
				return
			}
		}
	}
}

// origin is the buffer that a packet occupies. Copies of a multicast packet share its place.
func (k *Packet) origin() Origin {
	if k.whole != nil {
		k = k.whole
	}
	if k.in == nil {
		return Origin{}
	}
	return Origin{k.in.number, k.inVL}
}
