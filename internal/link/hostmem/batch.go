package hostmem

import "softrdma/internal/link/lines"

// # Batches
//
// The receiver's cache has the line of a slot when the sender uses it again, so several messages
// in a row are written by streaming stores (package lines).
//
// Those become visible in any order, and a line may become visible in parts. So a batch keeps
// back the stamp of its first message, which ordinary stores write. The receiver looks at no later
// slot before it has taken that message, and End stores the stamp behind a barrier for all streamed
// lines. The receiver knows nothing of batches.

// maxBatch is the number of messages of a batch. The receiver works on one while the sender
// makes the next.
const maxBatch = 16

// A batch is messages that the receiver does not see yet.
type batch struct {
	n     int    // of messages
	slot  []byte // of the first
	first uint64 // word of slot, with the stamp
	lines [slotSize]byte
}

// Slot returns n bytes for the headers of the next message and directly behind them a short
// payload. The caller writes all of them and calls Append. Slot returns nil if n bytes do not fit
// a slot, or if there is no slot.
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

// Append adds the message that was written to Slot, with so many bytes of headers and of payload,
// to those that the next End publishes, at the latest. Messages that are published otherwise
// before that stand behind them.
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

// End publishes what Append has added. Armed begins with it.
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
