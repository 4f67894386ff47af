package samehost

import (
	"slices"
	"sync"
	"sync/atomic"

	"softrdma/internal/link/hostmem"
	"softrdma/internal/memory"
	"softrdma/internal/reason"
)

// maxSegments bounds the segments that each side of a channel offers.
const maxSegments = 1024

// segments are those of both sides. Lists are sorted by number and replaced, never changed.
type segments struct {
	theirs atomic.Pointer[[]theirSegment] // run changes it, with mu
	old    []*shared                      // withdrawn ones that lanes may still read

	mu         sync.Mutex
	ours       atomic.Pointer[[]ourSegment]
	generation uint32
}

type theirSegment struct {
	id    uint32
	bytes []byte // of mem
	mem   *shared
}

// A shared is the mapping of a peer's segment. It is unmapped when neither the channel nor a View uses
// it.
type shared struct {
	*hostmem.Memory
	uses atomic.Int32
}

// drop ends a use.
func (s *shared) drop() error {
	if s.uses.Add(-1) > 0 {
		return nil
	}
	return s.Close()
}

type ourSegment struct {
	id, generation uint32
	mapped         bool // by the peer
}

func (t theirSegment) number() uint32 { return t.id }

func (o ourSegment) number() uint32 { return o.id }

// search finds a segment by its number in a list that may be nil.
func search[S interface{ number() uint32 }](list *[]S, id uint32) (all []S, at int, found bool) {
	if list == nil {
		return nil, 0, false
	}
	all = *list
	low, high := 0, len(all)
	for low < high {
		if middle := (low + high) / 2; all[middle].number() < id {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return all, low, low < len(all) && all[low].number() == id
}

func (s *segments) findTheirs(id uint32) ([]theirSegment, int, bool) {
	return search(s.theirs.Load(), id)
}

func (s *segments) findOurs(id uint32) ([]ourSegment, int, bool) { return search(s.ours.Load(), id) }

// Segment implements hostmem.Far.
func (c *channel) Segment(id uint32) []byte {
	list, at, found := c.segments.findTheirs(id)
	if !found {
		return nil
	}
	return list[at].bytes
}

// Offered implements hostmem.Far.
func (c *channel) Offered(id uint32) bool {
	list, at, found := c.segments.findOurs(id)
	return found && list[at].mapped
}

// Offer implements hostmem.Far. It offers a segment once; the peer may refuse it.
func (c *channel) Offer(g *memory.Segment) {
	if !c.same {
		return
	}
	s := &c.segments
	if _, _, found := s.findOurs(g.ID); found {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	list, at, found := s.findOurs(g.ID)
	if found || len(list) >= maxSegments || c.ended.Load() {
		return
	}
	s.generation++
	list = slices.Insert(slices.Clone(list), at, ourSegment{id: g.ID, generation: s.generation})
	s.ours.Store(&list)
	c.put(&message{kind: offer, id: g.ID, generation: s.generation, size: uint64(len(g.Mem))}, g)
}

// Withdraw implements hostmem.Far. The peer's answers to the offer do not count any more.
func (c *channel) Withdraw(id uint32) {
	s := &c.segments
	s.mu.Lock()
	defer s.mu.Unlock()
	list, at, found := s.findOurs(id)
	if !found {
		return
	}
	list = slices.Delete(slices.Clone(list), at, at+1)
	s.ours.Store(&list)
	c.put(&message{kind: withdraw, id: id}, nil)
}

// answered takes the peer's answer to an offer.
func (s *segments) answered(m *message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list, at, found := s.findOurs(m.id)
	if !found || list[at].generation != m.generation {
		return
	}
	list = slices.Clone(list)
	list[at].mapped = m.kind == mapped
	s.ours.Store(&list)
}

// handle handles a message of an established channel.
func (c *channel) handle(m *message, fds descriptors) error {
	if !c.same {
		return unexpected(m)
	}
	switch m.kind {
	case offer:
		return c.offered(m, fds)
	case mapped, unmappable:
		c.segments.answered(m)
	case withdraw:
		return c.withdrawn(m.id)
	case locate:
		c.locate(m)
	case located:
		return c.located(m)
	default:
		return unexpected(m)
	}
	return nil
}

func unexpected(m *message) error {
	return reason.Detail{Reason: reason.HostMessage, Expected: uint64(offer), Found: uint64(m.kind)}.Err()
}

// offered maps a segment of the peer. What cannot be mapped is not used; a peer that
// offers a segment twice or too many of them breaks the rules.
func (c *channel) offered(m *message, fds descriptors) error {
	s := &c.segments
	list, at, found := s.findTheirs(m.id)
	if found {
		return reason.Detail{Reason: reason.HostMessage, Expected: uint64(withdraw), Found: uint64(m.kind)}.Err()
	}
	if n := len(list) + len(s.old); n >= maxSegments {
		return tooMany(maxSegments, n)
	}
	reply := message{kind: unmappable, id: m.id, generation: m.generation}
	if m.size <= maxSegmentSize {
		if mem, err := hostmem.MapMemory(fds[0], int(m.size), false); err == nil {
			x := &shared{Memory: mem}
			x.uses.Store(1)
			s.replace(slices.Insert(slices.Clone(list), at, theirSegment{m.id, mem.Bytes(), x}))
			reply.kind = mapped
		}
	}
	c.put(&reply, nil)
	return nil
}

const maxSegmentSize = 1 << 46 // what a process has of addresses, about

// withdrawn unmaps a segment of the peer once no lane reads it. One that could not be
// mapped is unknown.
func (c *channel) withdrawn(id uint32) error {
	s := &c.segments
	list, at, found := s.findTheirs(id)
	if !found {
		return nil
	}
	mem := list[at].mem
	s.replace(slices.Delete(slices.Clone(list), at, at+1))
	if c.host.cfg.Barrier == nil {
		s.old = append(s.old, mem)
		return nil
	}
	c.host.cfg.Barrier()
	return mem.drop()
}

// replace replaces the list of the peer's segments. Views that begin afterwards find those of the new
// one.
func (s *segments) replace(list []theirSegment) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.theirs.Store(&list)
}

// use returns a segment of the peer for a View, which calls drop; nil if there is none.
func (s *segments) use(id uint32) *shared {
	s.mu.Lock()
	defer s.mu.Unlock()
	list, at, found := s.findTheirs(id)
	if !found {
		return nil
	}
	list[at].mem.uses.Add(1)
	return list[at].mem
}

// free unmaps the peer's segments.
func (s *segments) free() {
	s.mu.Lock()
	list := s.theirs.Swap(nil)
	s.mu.Unlock()
	if list != nil {
		for _, t := range *list {
			_ = t.mem.drop()
		}
	}
	for _, m := range s.old {
		_ = m.drop()
	}
	s.old = nil
}
