package session

import "fmt"

// A Verdict is a server's decision about a request.
type Verdict uint8

// The verdicts.
const (
	New      Verdict = iota // execute it
	Running                 // a repetition of a request in progress
	Answered                // a repetition: send the answer again
	Stale                   // a late copy of a request whose answer the client already has
)

// A Table holds a server's state of the slots of a session.
type Table struct{ slots []state }

type state struct {
	sequence uint32
	running  bool
	used     bool
}

// NewTable returns a table of n slots. The first call of each slot has the number 1.
func NewTable(n int) Table { return Table{make([]state, n)} }

// Request decides about a request. The error matches ErrProtocol.
func (t *Table) Request(slot uint16, sequence uint32) (Verdict, error) {
	if int(slot) >= len(t.slots) {
		return 0, fmt.Errorf("%w: a request in slot %d of %d", ErrProtocol, slot, len(t.slots))
	}
	s := &t.slots[slot]
	switch d := int32(sequence - s.sequence); {
	case d < 0 || d == 0 && !s.used:
		return Stale, nil
	case d == 0 && s.running:
		return Running, nil
	case d == 0:
		return Answered, nil
	case d == 1 && !s.running:
		s.sequence, s.running, s.used = sequence, true, true
		return New, nil
	}
	return 0, fmt.Errorf("%w: request %d in slot %d, the last one was %d", ErrProtocol, sequence, slot, s.sequence)
}

// Current reports whether a frame names the slot's last request.
func (t *Table) Current(slot uint16, sequence uint32) bool {
	return int(slot) < len(t.slots) && t.slots[slot].sequence == sequence && t.slots[slot].used
}

// Finish records that the slot's request was executed.
func (t *Table) Finish(slot uint16) { t.slots[slot].running = false }
