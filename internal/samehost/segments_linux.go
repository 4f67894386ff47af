package samehost

import (
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"softrdma/internal/link/hostmem"
	"softrdma/internal/memory"
	"softrdma/internal/reason"
	"softrdma/internal/unixmsg"
)

// maxSegments is the largest number of segments that each side of a channel offers.
const maxSegments = 1024

// Mappings use address space and entries of the kernel's list of mappings. If address space
// runs out, the Go runtime ends the process, and a peer may offer memory without pages, of any
// length. So a peer gets no more address space than it can have memory. Data in further
// segments travels through the ring.
const (
	mappedPeers = 4       // limit of all peers, as a multiple of the limit of one
	mappedLimit = 1 << 44 // bytes, of 1<<47 that a process has
	mappedCount = 8192    // segments of all peers; vm.max_map_count is 65530 by default
)

// mappedSpace counts what this process has mapped of all peers' segments.
var mappedSpace struct{ bytes, count atomic.Int64 }

// peerLimit is how many bytes of one peer may be mapped.
var peerLimit = sync.OnceValue(func() int64 {
	var i unix.Sysinfo_t
	if unix.Sysinfo(&i) != nil {
		return 1 << 30
	}
	n := (i.Totalram + i.Totalswap) * uint64(i.Unit)
	n = min(n, mappedLimit/mappedPeers)
	if l := (unix.Rlimit{}); unix.Getrlimit(unix.RLIMIT_AS, &l) == nil {
		n = min(n, l.Cur/2/mappedPeers)
	}
	return int64(n)
})

// segments holds the segments of both sides. Lists are sorted by number and replaced, never
// changed.
type segments struct {
	theirs atomic.Pointer[[]theirSegment] // changed by run, with mu
	old    []*shared                      // withdrawn, but lanes may still read them
	mapped atomic.Int64                   // bytes of the peer's segments

	mu         sync.Mutex
	ours       atomic.Pointer[[]ourSegment]
	generation uint32
}

type theirSegment struct {
	id    uint32
	bytes []byte // of mem
	mem   *shared
}

// A shared is the mapping of a peer's segment. It is unmapped when neither the channel nor a
// View uses it.
type shared struct {
	*hostmem.Memory
	uses atomic.Int32
	size int64
	of   *atomic.Int64 // counts the peer's bytes
}

// mapShared maps a segment of the peer, unless that exceeds a limit.
func (s *segments) mapShared(fd int, size int64) (*shared, error) {
	x := &shared{size: size, of: &s.mapped}
	x.uses.Store(1)
	n := s.mapped.Add(size)
	all, count := mappedSpace.bytes.Add(size), mappedSpace.count.Add(1)
	var err error
	switch {
	case n > peerLimit():
		err = tooMany(int(peerLimit()), int(n))
	case all > mappedPeers*peerLimit():
		err = tooMany(int(mappedPeers*peerLimit()), int(all))
	case count > mappedCount:
		err = tooMany(mappedCount, int(count))
	default:
		x.Memory, err = hostmem.MapMemory(fd, int(size), false)
	}
	if err != nil {
		x.uncount()
		return nil, err
	}
	return x, nil
}

func (s *shared) uncount() {
	s.of.Add(-s.size)
	mappedSpace.bytes.Add(-s.size)
	mappedSpace.count.Add(-1)
}

// drop releases a use, and unmaps the segment after the last.
func (s *shared) drop() error {
	if s.uses.Add(-1) > 0 {
		return nil
	}
	defer s.uncount()
	return s.Close()
}

type ourSegment struct {
	id, generation uint32
	mapped         bool // by the peer
}

func (t theirSegment) number() uint32 { return t.id }

func (o ourSegment) number() uint32 { return o.id }

// search finds a segment by its number in a list, which may be nil.
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

// Withdraw implements hostmem.Far. Later answers to the offer are ignored.
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

// answered handles the peer's answer to an offer.
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
func (c *channel) handle(m *message, fds unixmsg.Descriptors) error {
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

// offered maps a segment of the peer. A segment that cannot be mapped is not used. A peer that
// offers a segment twice, or too many segments, violates the protocol.
func (c *channel) offered(m *message, fds unixmsg.Descriptors) error {
	s := &c.segments
	list, at, found := s.findTheirs(m.id)
	if found {
		return reason.Detail{Reason: reason.HostMessage, Expected: uint64(withdraw), Found: uint64(m.kind)}.Err()
	}
	if n := len(list) + len(s.old); n >= maxSegments {
		return tooMany(maxSegments, n)
	}
	reply := message{kind: unmappable, id: m.id, generation: m.generation}
	if m.size <= mappedLimit {
		x, err := s.mapShared(fds[0], int64(m.size))
		if err == nil {
			s.replace(slices.Insert(slices.Clone(list), at, theirSegment{m.id, x.Bytes(), x}))
			reply.kind = mapped
		} else if why := detailOf(err); why.Reason == reason.HostLimit && c.host.cfg.Refused != nil {
			c.host.cfg.Refused(why)
		}
	}
	c.put(&reply, nil)
	return nil
}

// withdrawn unmaps a segment of the peer once no lane reads it. It ignores the number of a
// segment that could not be mapped.
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

// replace replaces the list of the peer's segments. Views that begin afterwards use the new
// list.
func (s *segments) replace(list []theirSegment) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.theirs.Store(&list)
}

// use returns a segment of the peer for a View, or nil. The view calls drop.
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
