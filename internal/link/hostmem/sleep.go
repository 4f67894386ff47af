package hostmem

// # Why no wake-up is lost
//
// Operations of sync/atomic on all words of a ring behave as if in one order (Go memory
// model, "Atomic Values"), also between processes: on processors with weaker ordering Go
// surrounds them with barriers, and on amd64 a Store is an XCHG.
//
// A receiver that goes to sleep stores armed, then loads the stamp of the next slot. A
// sender stores that stamp, then loads armed. One of the loads comes last and sees the
// other side's store: either Arm finds the message, or Armed finds the word.
//
// Armed has to see the word once although several messages may be published before it is
// called, and must not ring for each message although it cannot clear a word that is the
// receiver's. So the word says which message ends the sleep. Armed rings if that message
// was published since its last call. It cannot have been published before: then Armed was
// called before it as well, and otherwise Arm finds it.
//
// Another goroutine may take messages while one sleeps. Release then moves the word on, so
// that the next message rings as well: the sleeper, which perhaps was not scheduled yet,
// would miss it if the bell's first ring was taken note of by the other goroutine. Release
// stores head, then loads asleep; Arm stores asleep, then loads head. If Release overlooks
// the sleeper, Arm has seen the new head. If Arm stores an older number than Release, the
// slot that it looks at has been used, and it does not find the ring empty.
//
// The sender's sleep is the same with the sides exchanged. AwaitRoom stores wake, then
// loads head; Release stores head, then loads wake, and rings for the head that wake names.

// Armed reports whether the receiver sleeps until a message that was published since the last
// call: its bell is to be rung. It is called after messages were published, before the
// sender turns to anything else.
func (s *Sender) Armed() bool {
	at := s.armed.Load()
	ring := at > s.checked && at <= s.sent
	s.checked = s.sent
	return ring
}

// Arm asks the sender to ring the bell for the next message, until Disarm. It returns
// false, and changes nothing, if there is a message already. Arm and Disarm may be called
// by another goroutine than the one that takes messages.
func (r *Receiver) Arm() (empty bool) {
	before := r.asleep.Swap(true)
	// A sender that writes head loses wake-ups for its own messages only.
	next := r.head.Load()
	r.armed.Store(next + 1)
	if uint32(shared(r.slot(next), 0).Load()) == stampOf(next)-1 {
		return true
	}
	if !before { // a message or a fault
		r.Disarm()
	}
	return false
}

// Disarm ends Arm. The bell may ring once more.
func (r *Receiver) Disarm() {
	r.asleep.Store(false)
	r.armed.Store(0)
}

// AwaitRoom asks the receiver to ring the sender's bell when it has released half of what is
// unreleased now. It returns false if messages were released since the sender looked last:
// room is to be tried again, and the bell may still ring.
func (s *Sender) AwaitRoom() bool {
	if s.refresh() || s.taken == s.sent {
		return false
	}
	s.wake.Store(s.taken + (s.sent-s.taken+1)/2)
	return !s.refresh()
}
