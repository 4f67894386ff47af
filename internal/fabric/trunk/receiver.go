package trunk

import (
	"softrdma/internal/reason"
)

// window is the most segments that are under way. A bitmap and the segment awaited cover them.
const window = 128

// A receiver restores the order of segments.
type receiver struct {
	awaited uint32
	early   bitmap
	held    [window][]byte // by number modulo window; those in early are in use
}

// take takes a segment, and calls f for each payload that is in order now, until one has a
// fault. Segments that came before are ignored, as are those beyond the window.
func (r *receiver) take(number uint32, payload []byte, f func([]byte) reason.Detail) reason.Detail {
	ahead := number - r.awaited
	if ahead >= window {
		return reason.Detail{}
	}
	if ahead > 0 {
		if !r.early.has(ahead - 1) {
			r.early.set(ahead - 1)
			r.held[number%window] = append(r.held[number%window][:0], payload...)
		}
		return reason.Detail{}
	}
	for {
		if d := f(payload); d.Reason != reason.None {
			return d
		}
		r.awaited++
		if !r.early.shift() {
			return reason.Detail{}
		}
		payload = r.held[r.awaited%window]
	}
}
