package faults

import (
	"fmt"
	"time"
)

// maxHits is how many hits are listed. Further ones are counted.
const maxHits = 4096

// A Hit is a packet, call or object that a rule has hit.
type Hit struct {
	Rule   int // from 0
	Name   string
	Action Action
	Time   time.Duration // since the rules began
	Match  uint64        // of the rule, from 1
	What   string        // was hit

	packet PacketFacts
	of     uint32 // class of a packet, else 0
}

// String returns the hit as a line.
func (h Hit) String() string {
	name := h.Name
	if name == "" {
		name = fmt.Sprintf("rule %d", h.Rule+1)
	}
	return fmt.Sprintf("%v %s: %s match %d: %s", h.Time.Round(time.Microsecond), name, h.Action, h.Match, h.What)
}

// Where returns the part of the hit that the same rules, seed and traffic repeat: the rule, what it does and
// the number of the match. Times, and numbers that the system chooses, are not in it.
func (h Hit) Where() string { return where(h.Rule, h.Action, h.Match) }

// Where returns what Hit.Where does, of the first rule that hit the packet.
func (v *Verdict) Where() string { return where(v.Rule, v.Action, v.Match) }

// Where returns what Hit.Where does.
func (e *Effect) Where() string { return where(e.Rule, e.Action, e.Match) }

func where(rule int, a Action, match uint64) string {
	return fmt.Sprintf("rule %d: %s match %d", rule+1, a, match)
}

func (x *Injector) hit(h Hit) {
	if x.total++; len(x.hits) < maxHits {
		x.hits = append(x.hits, h)
	}
}

// Hits returns the first hits of the rules that are or were set last, in their order.
func (x *Injector) Hits() []Hit {
	x.mu.Lock()
	defer x.mu.Unlock()
	list := append([]Hit(nil), x.hits...)
	for i := range list {
		h := &list[i]
		if f := &h.packet; h.of != 0 {
			way := Sent + " to"
			if f.Received {
				way = Received + " from"
			}
			if f.stream {
				h.What = fmt.Sprintf("%v with %d bytes %s %v, queue pair 0x%06x", f.rdmap, f.Size, way, f.Peer, f.QPN)
				continue
			}
			h.What = fmt.Sprintf("%v PSN %d with %d bytes %s %v, queue pair 0x%06x", f.opcode, f.psn, f.Size, way, f.Peer, f.QPN)
		}
	}
	return list
}

// Counts returns how often each rule has hit.
func (x *Injector) Counts() []uint64 {
	x.mu.Lock()
	defer x.mu.Unlock()
	n := make([]uint64, len(x.matches))
	for i := range x.matches {
		n[i] = x.matches[i].struck
	}
	return n
}
