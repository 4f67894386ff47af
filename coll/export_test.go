package coll

import "softrdma/msg"

// IsMapped reports whether the members of the group read each other's memory.
func (g *Group) IsMapped() bool { return g.mapping != nil }

// ShareWith makes the member register slabs with another worker.
func (g *Group) ShareWith(w *msg.Worker) { g.mesh.pool.worker = w }

// Share returns the key and the length of a new slab of the member.
func (g *Group) Share(n int) (key []byte, length uint64, err error) {
	s, err := g.mesh.pool.share(n)
	if err != nil {
		return nil, 0, err
	}
	return s.key, uint64(len(s.bytes)), nil
}

// MapBoard maps memory that another member's key names, as its board.
func (g *Group) MapBoard(rank int, b []byte) error {
	var k key
	k.set(b)
	return g.call.mapBoard(rank, &k)
}

// Pieces returns the number of pieces of memory that the member has for calls of all its groups.
func (g *Group) Pieces() int {
	p := &g.mesh.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.all) + len(p.slabs)
}

// Calls returns the number of calls that have begun.
func (g *Group) Calls() uint64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.calls
}

// SetCalls makes the next call that with the number n + 1.
func (g *Group) SetCalls(n uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.calls = n
}

// Pretend writes to the member's board as if it had done all steps of the next call, an operation on so
// many bytes of each member. Damage may change what the board has, and stray is what is wrong with the numbers.
func (g *Group) Pretend(o Operation, length, root int, damage func(b []byte), stray uint64) {
	m := g.mapping
	b := m.boards[g.rank]
	word := (g.calls+1)<<shiftWord | uint64(o)<<5 | uint64(Mapped)
	b.vote, b.offer = 1, offer{Length: uint64(length)}
	if o == OpBroadcast || o == OpReduce {
		b.offer.Root = uint64(root)
	}
	m.place(&b.offer.Source, m.source, 0)
	m.place(&b.offer.Result, m.result, 0)
	for i := range b.shorts {
		s := &b.shorts[i]
		s.Word, s.Length = word, uint64(length)
		damage(bytesOf(s))
	}
	damage(bytesOf(&b.offer))
	b.call.Store(word ^ stray)
	b.step.Store(word<<shiftStep ^ stray | 1000)
}

// MappedRound is the most bytes of one round, MaxShort those of all members on boards, and NumberBits the
// length of a call's number there.
const (
	MappedRound = mappedRound
	MaxShort    = maxShort
	NumberBits  = numberBits
)
