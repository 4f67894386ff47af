package hostmem

// # Why no wake-up is lost
//
// All operations of sync/atomic behave as if in one order (Go memory model, "Atomic Values").
// On shared memory that holds between processes too: where a processor orders memory less
// strictly, Go adds barriers. On amd64 a Store is an XCHG, a full barrier.
//
// A receiver that goes to sleep stores armed, then loads the stamp of the next slot. A sender
// stores that stamp, then loads armed. The later of the two loads sees the other side's store:
// either Arm finds the message, or Armed finds the word. Only the stamp is stored by
// storeRelease, which is no full barrier. Armed compensates for that with an atomic operation
// on a separate word, once for all messages since the last call. Before that it ends a batch,
// whose first stamp is not stored yet.
//
// Armed is called once after several messages, must ring once for them, and cannot clear a
// word that belongs to the receiver. So the word holds the number of the message that ends the
// sleep, and Armed rings if that message was published since its last call. Had it been
// published earlier, that earlier call would have seen the word, or Arm the message.
//
// While one goroutine sleeps another one may take messages. The sleeper would then miss the
// following message, if the other goroutine was the one to answer the first ring. So Show
// advances the word. Show stores head, then loads asleep; Arm stores asleep, then loads head:
// if Show does not see the sleeper, Arm sees the new head. Arm looks at head again before it
// returns false, so that it never leaves an older number than Show has stored. Before Show,
// Arm finds the messages that Retire has freed, and does not let the sleeper sleep.
//
// A sender that waits for room works the same way with the sides exchanged. AwaitRoom stores
// wake, then loads head; Show stores head, then loads wake, and rings if head has reached the
// value of wake.

// Armed reports whether the receiver sleeps and waits for a message that was published since
// the last call, so that its bell must be rung. It is called after every publication or after
// several.
func (s *Sender) Armed() bool {
	s.End()
	s.barrier.Add(1)
	at := s.armed.Load()
	ring := at > s.checked && at <= s.sent
	s.checked = s.sent
	return ring
}

// Arm asks the sender to ring the bell for the next message, until Disarm. If there is a
// message already, it returns false and leaves the ring as it was. Arm and Disarm may be
// called by another goroutine than the one that takes messages.
func (r *Receiver) Arm() (empty bool) {
	before := r.asleep.Swap(true)
	for range 4 {
		// A sender that overwrites head only loses wake-ups for its own messages.
		next := r.head.Load()
		r.armed.Store(next + 1)
		if uint32(shared(r.slot(next), 0).Load()) == stampOf(next)-1 {
			return true
		}
		if r.head.Load() == next { // a message or a fault
			break
		}
	}
	if !before {
		r.Disarm()
	}
	return false
}

// Disarm undoes Arm. The bell may ring once more.
func (r *Receiver) Disarm() {
	r.asleep.Store(false)
	r.armed.Store(0)
}

// AwaitRoom asks the receiver to ring the sender's bell when it has released half of the
// messages that are unreleased now. It returns false if messages were released since the
// sender looked last: the sender tries again, and the bell may ring nevertheless.
func (s *Sender) AwaitRoom() bool {
	if s.refresh() || s.taken == s.sent {
		return false
	}
	s.wake.Store(s.taken + (s.sent-s.taken+1)/2)
	return !s.refresh()
}
