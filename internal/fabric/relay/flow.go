package relay

import "softrdma/internal/link/fabric"

// control is the lane of messages, behind those of the service levels.
const (
	control = fabric.Levels
	lanes   = fabric.Levels + 1
)

// window is how many bytes of a lane may be on their way or wait for the receiver. A longest
// message is less.
const window = 256 << 10

// leastCost is what a frame counts at least, because a receiver that keeps it needs more than its
// bytes.
const leastCost = 64

// cost is what a frame counts against the window.
func cost(bytes int) uint64 { return uint64(max(bytes, leastCost)) }

// A flow counts the bytes of one lane in both directions since the beginning. The receiver tells
// up to which count the sender may send.
type flow struct {
	sent, limit uint64 // by this end

	received uint64 // from the other end
	taken    uint64 // of these, what does not wait here any more
	granted  uint64 // the other end's limit
}

func (f *flow) init() { f.limit, f.granted = window, window }

// room reports whether a frame may be sent.
func (f *flow) room(cost uint64) bool { return f.sent+cost <= f.limit }

// receive notes a frame, and reports false if the other end was not granted it.
func (f *flow) receive(cost uint64) bool {
	f.received += cost
	return f.received <= f.granted
}

// grantEvery is how much a grant changes the limit at least.
const grantEvery = window / 4

// grant returns the new limit of the other end, if it is to be told.
func (f *flow) grant() (limit uint64, ok bool) {
	if f.taken+window-f.granted < grantEvery {
		return 0, false
	}
	f.granted = f.taken + window
	return f.granted, true
}

// raise takes a limit, and reports false if the other end cannot have granted it.
func (f *flow) raise(limit uint64) bool {
	if limit <= f.limit || limit > f.sent+window {
		return false
	}
	f.limit = limit
	return true
}
