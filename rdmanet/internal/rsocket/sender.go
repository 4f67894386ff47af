package rsocket

import "softrdma/internal/reason"

// TargetEntries is how many entries this side's target table has: one for each
// half of the peer's buffer.
const TargetEntries = 2

// A Sender knows where the peer wants data and how much of it.
type Sender struct {
	sent, limit uint16 // messages, modulo 2^16: limit is what the peer grants
	target      [TargetEntries]SGE
	use         int // entry that data goes to
	fill        int // entry that the peer tells next
}

// Start takes the peer's connection data: its first buffer and its credit.
func (s *Sender) Start(peer *ConnData) {
	*s = Sender{limit: peer.Credits, fill: 1}
	s.target[0] = peer.Data
}

// Room is how many bytes the next message may carry. 0 means to wait for the
// peer.
func (s *Sender) Room() int {
	if s.sent == s.limit {
		return 0
	}
	return int(min(s.target[s.use].Length, MaxData))
}

// Take counts a message of n bytes, 1 to Room, and tells where they go.
func (s *Sender) Take(n int) (addr uint64, key uint32) {
	t := &s.target[s.use]
	addr, key = t.Addr, t.Key
	s.sent++
	t.Addr += uint64(n)
	if t.Length -= uint32(n); t.Length == 0 {
		s.use = (s.use + 1) % TargetEntries
	}
	return addr, key
}

// Credit reports whether a message without data in the peer's buffer may be sent
// that counts like one with data, and Spend counts it.
func (s *Sender) Credit() bool { return s.sent != s.limit }

// Spend counts a message.
func (s *Sender) Spend() { s.sent++ }

// Grant takes the credit limit of an OpCredits message.
func (s *Sender) Grant(limit uint32) { s.limit = uint16(limit) }

// NextTarget is the index of the entry that the peer tells next.
func (s *Sender) NextTarget() int { return s.fill }

// Tell takes the entry at NextTarget, which the peer has written.
func (s *Sender) Tell(e SGE) error {
	// The peer tells a half again when all of it was read, so all was written.
	if left := s.target[s.fill].Length; left != 0 || e.Length == 0 {
		return fault(reason.SocketTarget, uint64(left), uint64(e.Length))
	}
	s.target[s.fill] = e
	s.fill = (s.fill + 1) % TargetEntries
	return nil
}
