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
	slot := s.batch.lines[:]
	if s.batch.n == 0 {
		slot = s.next()
	}
	return slot[nearAt : nearAt+n : nearAt+n]
}

// Append adds the message written to Slot, with the given lengths of headers and payload, to
// the batch. End publishes it at the latest. Messages that are published otherwise before that
// come after it.
func (s *Sender) Append(h *Head, header, payload int) {
	b := &s.batch
	slot := s.next()
	first, second := h.first(inSlot, header)|uint64(stampOf(s.sent)), h.second(payload)
	if b.n == 0 {
		*word(slot, 8) = second
		b.slot, b.first = slot, first
	} else {
		*word(b.lines[:], 0), *word(b.lines[:], 8) = first, second
		lines.Copy(&slot[0], &b.lines[0], (nearAt+header+payload+lines.Size-1)/lines.Size)
	}
	s.count()
	if b.n++; b.n == maxBatch {
		s.End()
	}
}

// End publishes the messages of Append. Armed calls it first.
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
