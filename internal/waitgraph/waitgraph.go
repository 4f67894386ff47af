// Package waitgraph finds deadlocks among lanes of links that stand still, each until there is room
// at its other end: virtual lanes without credit, priorities that are paused.
//
// It knows no fabric. Its users say what stands still and what each lane waits for.
package waitgraph

import (
	"maps"
	"slices"
)

// Causes of lanes that stand still.
const (
	Deadlock = "deadlock" // it waits for a circle of lanes that wait for each other
	Program  = "program"  // in the end it waits for a program or agent that takes no packets
	Lost     = "credits"  // the buffer at the other end is empty: grants of credit, or ends of pauses, were lost
	Traffic  = "traffic"  // it waits for lanes that move
)

// A Lane is a lane that stands still. There is room again when a packet leaves the buffer at its
// other end.
type Lane[C comparable] struct {
	Next    []C    // lanes that stand still as well, on which packets of that buffer wait
	Program bool   // some packets wait for a program
	Moves   bool   // some packets can move
	All     bool   // it waits for all of Next; otherwise one is enough
	Cause   string // see Judge
}

// A Graph is the lanes that stand still. All lanes of Lane.Next are in it.
type Graph[C comparable] map[C]*Lane[C]

// Judge finds the cause of each lane: one packet of the buffer that can move is enough. A lane that
// waits for all of several has the cause that lasts longest.
func (g Graph[C]) Judge() {
	spread := func(cause string, begins func(*Lane[C]) bool) {
		for changed := true; changed; {
			changed = false
			for _, l := range g {
				if l.Cause == "" && (begins(l) || g.follows(l, cause)) {
					l.Cause, changed = cause, true
				}
			}
		}
	}
	spread(Traffic, func(l *Lane[C]) bool { return l.Moves })
	spread(Program, func(l *Lane[C]) bool { return l.Program })
	spread(Lost, func(l *Lane[C]) bool { return len(l.Next) == 0 })
	spread(Deadlock, func(*Lane[C]) bool { return true })
}

// follows reports whether a lane has a cause from the lanes for which it waits.
func (g Graph[C]) follows(l *Lane[C], cause string) bool {
	if l.All && slices.ContainsFunc(l.Next, func(to C) bool { return g[to].Cause == "" }) {
		return false
	}
	return slices.ContainsFunc(l.Next, func(to C) bool { return g[to].Cause == cause })
}

// Circle returns lanes of a deadlock that wait for each other, beginning at the one that comes first
// in the order; nil if there is no deadlock. Every lane of a deadlock waits for another of it.
func (g Graph[C]) Circle(compare func(a, b C) int) []C {
	dead := slices.SortedFunc(maps.Keys(g), compare)
	dead = slices.DeleteFunc(dead, func(at C) bool { return g[at].Cause != Deadlock })
	if len(dead) == 0 {
		return nil
	}
	var path []C
	for at := dead[0]; ; {
		if i := slices.Index(path, at); i >= 0 {
			return path[i:]
		}
		path = append(path, at)
		next := g[at].Next
		at = next[slices.IndexFunc(next, func(to C) bool { return g[to].Cause == Deadlock })]
	}
}
