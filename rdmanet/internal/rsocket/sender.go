package rsocket

import "softrdma/internal/reason"

// TargetEntries is the number of entries in this side's target table: one for each
// half of the peer's buffer.
const TargetEntries = 2

// A Sender tracks where the peer's free receive memory is and how much credit is
// left.
type Sender struct {
	sent, limit uint16 // messages, modulo 2^16; the peer grants limit
	total       uint64 // bytes sent
	target      [TargetEntries]SGE
	whole       [TargetEntries]uint32 // lengths of target, when the peer told them
	use         int                   // index of the entry to write data to
	fill        int                   // index of the entry that the peer fills next
}

// Start sets the initial buffer and credit from the peer's connection data.
func (s *Sender) Start(peer *ConnData) {
	*s = Sender{limit: peer.Credits, fill: 1}
	s.target[0], s.whole[0] = peer.Data, peer.Data.Length
}

// Room returns how many bytes the next message may carry. 0 means that the sender
// must wait for the peer.
func (s *Sender) Room() int {
	if s.sent == s.limit {
		return 0
	}
	return int(min(s.target[s.use].Length, MaxData))
}

// Take counts a message of n bytes, which is between 1 and Room, and returns the
// address and key to write them to.
func (s *Sender) Take(n int) (addr uint64, key uint32) {
	t := &s.target[s.use]
	addr, key = t.Addr, t.Key
	s.sent++
	s.total += uint64(n)
	t.Addr += uint64(n)
	if t.Length -= uint32(n); t.Length == 0 {
		s.use = (s.use + 1) % TargetEntries
	}
	return addr, key
}

// Sent returns how many bytes were sent.
func (s *Sender) Sent() uint64 { return s.total }

// Credit reports whether a message may be sent that uses a credit but no space in
// the peer's buffer. Spend counts such a message.
func (s *Sender) Credit() bool { return s.sent != s.limit }

// Spend counts a message that Credit allowed.
func (s *Sender) Spend() { s.sent++ }

// Grant sets the credit limit from an OpCredits message.
func (s *Sender) Grant(limit uint32) { s.limit = uint16(limit) }

// NextTarget returns the index of the entry that the peer fills next.
func (s *Sender) NextTarget() int { return s.fill }

// Tell adds the entry at NextTarget, which the peer has written.
func (s *Sender) Tell(e SGE) error {
	// The peer grants a half again only after it has read all of it, so this side
	// must have filled it before.
	if left := s.target[s.fill].Length; left != 0 || e.Length == 0 {
		return fault(reason.SocketTarget, uint64(left), uint64(e.Length))
	}
	s.target[s.fill], s.whole[s.fill] = e, e.Length
	s.fill = (s.fill + 1) % TargetEntries
	return nil
}

// Skip leaves the rest of the target in use to the peer, which may be longer than base, and reports whether it
// did: the peer must be told (ControlSkip). There is always another target to write to.
func (s *Sender) Skip(base uint32) bool {
	next := (s.use + 1) % TargetEntries
	if s.whole[s.use] <= base || s.target[s.use].Length == 0 || s.target[next].Length == 0 {
		return false
	}
	s.target[s.use].Length = 0
	s.use = next
	return true
}
