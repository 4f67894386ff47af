package waitgraph

import "slices"

// Circles returns the sets of lanes of which each can wait, directly or not, for each other one of
// its set, and for itself: the strongly connected components of a graph (Tarjan, 1972). Lanes that
// are in no circle are in no set. It looks from the given lanes on, and next returns those for which
// one can wait.
func Circles[C comparable](from []C, next func(C) []C) [][]C {
	t := tarjan[C]{next: next, state: make(map[C]*visit)}
	for _, c := range from {
		if t.state[c] == nil {
			t.search(c)
		}
	}
	return t.found
}

// A visit is what the search knows of a lane.
type visit struct {
	index, low int // order of the visit, and the earliest open one that is reached
	open       bool
}

type tarjan[C comparable] struct {
	next  func(C) []C
	state map[C]*visit
	open  []C // in no set yet, in the order of their visits
	found [][]C
}

// A step is a lane on the path of the search, and those behind it that are to be visited.
type step[C comparable] struct {
	at   C
	v    *visit
	rest []C
	self bool // it waits for itself
}

func (t *tarjan[C]) enter(c C) step[C] {
	v := &visit{len(t.state), len(t.state), true}
	t.state[c] = v
	t.open = append(t.open, c)
	return step[C]{at: c, v: v, rest: t.next(c)}
}

// search visits all lanes that can be reached from one.
func (t *tarjan[C]) search(c C) {
	path := []step[C]{t.enter(c)}
	for len(path) > 0 {
		s := &path[len(path)-1]
		if len(s.rest) > 0 {
			to := s.rest[0]
			s.rest = s.rest[1:]
			s.self = s.self || to == s.at
			switch v := t.state[to]; {
			case v == nil:
				path = append(path, t.enter(to))
			case v.open:
				s.v.low = min(s.v.low, v.index)
			}
			continue
		}
		path = path[:len(path)-1]
		if len(path) > 0 {
			before := path[len(path)-1].v
			before.low = min(before.low, s.v.low)
		}
		if s.v.low == s.v.index {
			t.close(s)
		}
	}
}

// close ends the set of the lane that was visited first among its lanes.
func (t *tarjan[C]) close(s *step[C]) {
	i := slices.Index(t.open, s.at)
	set := slices.Clone(t.open[i:])
	for _, c := range set {
		t.state[c].open = false
	}
	t.open = t.open[:i]
	if len(set) > 1 || s.self {
		t.found = append(t.found, set)
	}
}

// Around returns a shortest circle through the first lane of a set that Circles has found: each lane
// can wait for the next one, and the last one for the first.
func Around[C comparable](set []C, next func(C) []C) []C {
	if len(set) == 0 {
		return nil
	}
	first := set[0]
	before := map[C]C{}
	for queue := []C{first}; len(queue) > 0; queue = queue[1:] {
		at := queue[0]
		for _, to := range next(at) {
			if to == first {
				circle := []C{at}
				for ; at != first; circle = append(circle, at) {
					at = before[at]
				}
				slices.Reverse(circle)
				return circle
			}
			if _, seen := before[to]; !seen && slices.Contains(set, to) {
				before[to] = at
				queue = append(queue, to)
			}
		}
	}
	return nil
}
