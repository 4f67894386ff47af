package coll

import (
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"sync"
	"unsafe"

	"softrdma/msg"
	"softrdma/verbs"
)

const (
	maxMapped  = 32       // members up to which a group maps memory
	longMapped = 16 << 10 // bytes from which a call maps memory
	manyCalls  = 32       // calls after which a short one does so too
)

// A mapping is what members of a group on one host need to read each other's memory in place. The first
// call that needs it makes it, and it stays until the group closes.
type mapping struct {
	others      []int    // ranks, beginning with the next
	boards      []*board // by rank
	inside      bool     // a member is in this process
	earlySleeps int      // waits to come that sleep early, because others need the processors
	shorts      int      // all-reduces of elements on boards
	todo        []int    // for others
	own         *slab    // has the board
	views       []*verbs.View

	source, result *slab // for the elements and results of calls
	slabs          []*slab
	offers         []offer                  // of the last step with offers, by rank
	known          map[uint64]bool          // own slabs that the others have mapped, by number
	mapped         []map[uint64]*verbs.View // slabs of others, by rank and number
}

// useMapped reports whether a call with so many bytes begins with the algorithm Mapped. All members
// decide alike.
func (g *Group) useMapped(n int) bool {
	if g.Size() < 2 || g.Size() > maxMapped || g.unmapped.Load() {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return n >= longMapped || g.calls >= manyCalls || g.used
}

// isMapped reports whether the call's members read each other's memory, after they have tried to map it
// once. All members call it in the same call. Otherwise the call continues with another algorithm, unless
// it has ended.
func (c *call) isMapped(other Algorithm) bool {
	g := c.g
	if c.algorithm != Mapped || !c.ok() {
		return false
	}
	if g.mapping == nil && g.Size() > 1 && !g.unmapped.Load() {
		c.mapBoards()
	}
	if g.mapping == nil {
		c.algorithm = other
	} else if r := g.mapping.others[0]; c.err == nil {
		if err := g.mesh.links[g.members[r]].lost(); err != nil { // boards do not need what has ended
			c.failed(r, err)
		}
	}
	return g.mapping != nil && c.err == nil
}

// ownBoards has the keys of the boards of this process.
var ownBoards sync.Map

// mapBoards makes the mapping. There is none if one member has no view of another's board: all tell each
// other by messages.
func (c *call) mapBoards() {
	g := c.g
	n := g.Size()
	m := &mapping{
		boards: make([]*board, n), offers: make([]offer, n), mapped: make([]map[uint64]*verbs.View, n), known: map[uint64]bool{},
	}
	g.mapping = m // release frees what it has
	keys, votes := make([]key, n), make([]uint64, n)
	for d := 1; d < n; d++ {
		m.others = append(m.others, (g.rank+d)%n)
	}
	s, err := g.mesh.pool.share(minSlab)
	if err == nil {
		m.own = s
		keys[g.rank].set(s.key)
		ownBoards.Store(keys[g.rank], nil)
		m.boards[g.rank] = (*board)(unsafe.Pointer(&s.bytes[0]))
		m.boards[g.rank].call.Store(c.word)
		m.boards[g.rank].step.Store(c.word << shiftStep)
	}
	c.tell(func(r int) []byte { return bytesOf(&keys[r]) })
	for _, r := range m.others {
		if err == nil {
			err = c.mapBoard(r, &keys[r])
		}
	}
	if err == nil {
		votes[g.rank] = 1
	}
	if c.tell(func(r int) []byte { return bytesOf(&votes[r]) }) && slices.Contains(votes, 0) {
		c.unmap()
	}
	g.mu.Lock()
	g.used = g.mapping != nil
	g.mu.Unlock()
}

// tell sends this member's part to the others, and receives theirs.
func (c *call) tell(part func(r int) []byte) bool {
	var posts []*receive
	for _, r := range c.g.mapping.others {
		posts = append(posts, c.post(r, part(r)))
	}
	for _, r := range c.g.mapping.others {
		c.send(r, part(c.g.rank))
	}
	for _, p := range posts {
		if p == nil || !c.wait(p) {
			return false
		}
	}
	c.flush()
	return c.err == nil
}

func (c *call) mapBoard(rank int, k *key) error {
	v, err := c.view(rank, k)
	if err != nil {
		return err
	}
	m := c.g.mapping
	m.views = append(m.views, v)
	b := v.Bytes()
	if len(b) < minSlab || !aligned[board](b) {
		return fmt.Errorf("%w: a board of %d bytes at %p, expected %d, aligned", msg.ErrNoView, len(b), b, minSlab)
	}
	m.boards[rank] = (*board)(unsafe.Pointer(&b[0]))
	_, inside := ownBoards.Load(*k)
	m.inside = m.inside || inside
	return nil
}

// view maps memory of a member.
func (c *call) view(rank int, k *key) (*verbs.View, error) {
	if c.err != nil {
		return nil, c.err
	}
	e, err := c.g.mesh.link(c.context, c.g.members[rank])
	if err != nil {
		return nil, err
	}
	r, err := e.Remote(k.get())
	if err != nil {
		return nil, err
	}
	return r.View(c.context)
}

// unmap ends the use of mapped memory in the group, which all members have decided.
func (c *call) unmap() {
	c.g.unmapped.Store(true)
	c.g.release()
}

// release frees what a group's mapping has. No call of the group may use it any more. If the member leaves
// a group that works, the board tells members that wait for it. If the group has failed, a message tells
// them why.
func (g *Group) release() {
	m := g.mapping
	if m == nil {
		return
	}
	g.mapping = nil
	for _, v := range m.views {
		_ = v.Close() // nothing is left to do
	}
	for _, list := range m.mapped {
		for _, v := range list {
			_ = v.Close()
		}
	}
	if m.own != nil {
		if g.left {
			m.boards[g.rank].call.Store(leftCall) // views of others keep it
		}
		var k key
		k.set(m.own.key)
		ownBoards.Delete(k)
		m.slabs = append(m.slabs, m.own)
	}
	for _, s := range m.slabs {
		g.mesh.pool.drop(s)
	}
}

// An offering is what a member offers in a step of a call.
type offering struct {
	elements []byte
	length   int // of all elements of the call, in bytes
	root     int
	result   int // bytes of room for a result
}

// offer makes an offer and waits for those of the others. It reports whether all have views of what is
// offered. Otherwise nothing has happened, and the call continues with another algorithm unless it has
// ended. That happens only in a call's first step with offers: the later ones offer nothing new.
func (c *call) offer(a offering, other Algorithm) bool {
	g := c.g
	m := g.mapping
	o := &m.offers[g.rank]
	*o = offer{Length: uint64(a.length), Root: uint64(a.root)}
	if s, at := g.mesh.pool.find(a.elements); s != nil {
		m.place(&o.Source, s, at)
	} else if len(a.elements) > 0 && c.slab(&m.source, len(a.elements), o) {
		copy(m.source.bytes, a.elements)
		m.place(&o.Source, m.source, 0)
	}
	if a.result > 0 && c.slab(&m.result, a.result, o) {
		m.place(&o.Result, m.result, 0)
	}
	m.boards[g.rank].offer = *o
	c.done()
	failed, unknown := false, false
	look := func(r int) {
		o := &m.offers[r]
		if o.Length != uint64(a.length) {
			c.stop(r, fmt.Errorf("%w: it has %d bytes in %v, rank %d has %d", ErrLength, o.Length, c.operation, g.rank, a.length))
		}
		if o.Root != uint64(a.root) {
			c.stop(r, fmt.Errorf("%w: its root in %v is %d, that of rank %d is %d", ErrCall, c.operation, o.Root, g.rank, a.root))
		}
		failed = failed || o.Failed != 0
		unknown = unknown || o.Source.New|o.Result.New != 0
	}
	look(g.rank)
	if !c.others(false, func(r int) { m.offers[r] = m.boards[r].offer; look(r) }) {
		return false
	}
	if !failed && unknown {
		failed = !c.vote()
	}
	if failed && c.err == nil {
		c.algorithm = other
		c.unmap()
	}
	return !failed && c.err == nil
}

// place says where something is.
func (m *mapping) place(p *portion, s *slab, at int) {
	p.Number, p.At = s.number, uint64(at)
	p.key.set(s.key)
	if !m.known[s.number] {
		p.New = 1
	}
}

// slab sets *kept, which later calls use as well, to a slab of at least n bytes. If there is no memory, the
// offer o says so.
func (c *call) slab(kept **slab, n int, o *offer) bool {
	if *kept != nil && len((*kept).bytes) >= n {
		return true
	}
	s, err := c.g.mesh.pool.share(max(1<<bits.Len(uint(n-1)), 4*minSlab))
	if err != nil {
		o.Failed = 1
		return false
	}
	c.g.mapping.slabs = append(c.g.mapping.slabs, s)
	*kept = s
	return true
}

// vote maps what is new in offers, and reports whether all members could.
func (c *call) vote() bool {
	g := c.g
	m := g.mapping
	var err error
	for _, r := range m.others {
		o := &m.offers[r]
		err = errors.Join(err, c.mapPortion(r, &o.Source), c.mapPortion(r, &o.Result))
	}
	b := m.boards[g.rank]
	if b.vote = 0; err == nil {
		b.vote = 1
	}
	c.done()
	all := b.vote == 1
	c.others(false, func(r int) { all = all && m.boards[r].vote == 1 })
	m.known[m.offers[g.rank].Source.Number], m.known[m.offers[g.rank].Result.Number] = true, true
	return all
}

func (c *call) mapPortion(rank int, p *portion) error {
	list := c.g.mapping.mapped[rank]
	if p.Number == 0 || list[p.Number] != nil {
		return nil
	}
	v, err := c.view(rank, &p.key)
	if err != nil {
		return err
	}
	if list == nil {
		list = map[uint64]*verbs.View{}
		c.g.mapping.mapped[rank] = list
	}
	list[p.Number] = v
	return nil
}

// offered returns n elements from lo of what a member has offered. If there are not so many, the call
// ends.
func offered[T any](c *call, rank int, p *portion, lo, n int) []T {
	if n == 0 {
		return nil
	}
	if v := c.g.mapping.mapped[rank][p.Number]; v != nil {
		if x := elementsAt[T](v.Bytes(), p.At, lo, n); x != nil {
			return x
		}
	}
	c.stop(rank, fmt.Errorf("%w: it made an offer that is not understood", ErrGone))
	return nil
}

// elementsAt returns n elements, of some size, from the element lo of those that begin at an offset of a
// member's choice. It returns nil if they are not there.
func elementsAt[T any](b []byte, at uint64, lo, n int) []T {
	var one T
	size := uint64(unsafe.Sizeof(one))
	from := at + uint64(lo)*size
	if from < at || from > uint64(len(b)) || uint64(n)*size > uint64(len(b))-from || !aligned[T](b[from:]) {
		return nil
	}
	return view[T](b[from:])[:n]
}

// aligned reports whether memory begins where a T may be. A member says where that is.
func aligned[T any](b []byte) bool {
	var one T
	return uintptr(unsafe.Pointer(unsafe.SliceData(b)))%unsafe.Alignof(one) == 0
}
