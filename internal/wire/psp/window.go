package psp

// A Window notes which IVs of one SPI have come, so that no packet is taken twice (RFC 4303 3.4.3). It is
// for senders that count IVs up. Call Seen for packets whose integrity was checked only. The zero
// value is a new window. One goroutine at a time uses it.
type Window struct {
	next uint64 // one more than the highest
	bits [windowWords]uint64
}

const windowWords = 32

// WindowLen is how many IVs below the highest may still come.
const WindowLen = (windowWords - 1) * 64

// Seen notes an IV, and reports whether it may have come before: it was noted, or is too old to tell. IV
// 2^64-1 is never new.
func (w *Window) Seen(iv uint64) bool {
	at, bit := iv/64, uint64(1)<<(iv%64)
	switch {
	case iv+1 == 0 || iv+WindowLen < w.next && iv+WindowLen >= iv:
		return true
	case iv >= w.next:
		// Words up to the new one's are of older IVs.
		for word := (w.next + 63) / 64; word <= at && word < (w.next+63)/64+windowWords; word++ {
			w.bits[word%windowWords] = 0
		}
		w.next = iv + 1
	}
	word := &w.bits[at%windowWords]
	seen := *word&bit != 0
	*word |= bit
	return seen
}

// Newest reports whether an IV is the highest one that has come.
func (w *Window) Newest(iv uint64) bool { return w.next == iv+1 }
