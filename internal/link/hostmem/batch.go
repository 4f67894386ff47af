package hostmem

import "softrdma/internal/link/lines"

// # Batches
//
// When the sender reuses a slot, its line is in the receiver's cache. So several consecutive
// messages are written by streaming stores (package lines).
//
// Streamed lines become visible in any order, and possibly in parts. So a batch holds back the
// stamp of its first message, which is written by ordinary stores. The receiver looks at later
// slots only after it has taken that message, and End stores the stamp after a barrier for all
// streamed lines. The receiver needs no knowledge of batches.

// maxBatch is the number of messages in a batch. The receiver works on one batch while the
// sender writes the next.
const maxBatch = 16

// A batch is a sequence of messages that the receiver does not see yet.
type batch struct {
	n     int    // messages
	slot  []byte // of the first
	first uint64 // first word of slot, with the stamp
	lines [slotSize]byte
}

// Slot returns n bytes for the headers of the next message, directly followed by a short
// payload. The caller fills them and calls Append. Slot returns nil if n bytes do not fit a
// slot, or if no slot is free.
func (s *Sender) Slot(n int) []byte {
	if nearAt+n > slotSize || s.sent-s.taken == slots && !s.refresh() {
		return nil
	}
	slot := s.batch.lines[:] // by hand what line does: a tenth of the rate of short messages
	if s.batch.n == 0 {
		slot = s.next()
	}
	return slot[nearAt : nearAt+n : nearAt+n]
}

// line returns where the next message of the batch is written: the first to its slot.
func (s *Sender) line() []byte {
	if s.batch.n == 0 {
		return s.next()
	}
	return s.batch.lines[:]
}

// Append adds the message written to Slot, with the given lengths of headers and payload, to
// the batch. End publishes it at the latest. Messages that are published otherwise before that
// come after it.
func (s *Sender) Append(h *Head, header, payload int) {
	s.add(h.first(inSlot, header), h.second(payload), nearAt+header+payload)
}

// AppendRef adds a message as Refer publishes it to the batch. It returns false if there is no
// room.
func (s *Sender) AppendRef(h *Head, header []byte, r Ref, n int) bool {
	if s.sent-s.taken == slots && !s.refresh() {
		return false
	}
	line := s.line()
	r.put(line, header)
	s.refs = s.sent + 1
	s.add(h.first(byRef, len(header)), h.second(n), farAt+len(header))
	return true
}

// add adds the message in line, of n bytes, to the batch.
func (s *Sender) add(first, second uint64, n int) {
	b := &s.batch
	slot := s.next()
	first |= uint64(stampOf(s.sent))
	if b.n == 0 {
		*word(slot, 8) = second
		b.slot, b.first = slot, first
	} else {
		*word(b.lines[:], 0), *word(b.lines[:], 8) = first, second
		lines.Copy(&slot[0], &b.lines[0], (n+lines.Size-1)/lines.Size)
	}
	s.count()
	if b.n++; b.n == maxBatch {
		s.End()
	}
}

// End publishes the messages of Append and AppendRef. Armed calls it first.
func (s *Sender) End() {
	b := &s.batch
	if b.n == 0 {
		return
	}
	if b.n > 1 {
		lines.Await()
	}
	storeRelease(word(b.slot, 0), b.first)
	b.n, b.slot = 0, nil
}
