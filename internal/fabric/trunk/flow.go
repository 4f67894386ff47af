package trunk

// Window is how many bytes of a Flow may be on their way or wait for the receiver.
const Window = 256 << 10

// LeastCost is what a frame counts at least, because a receiver that keeps it needs more than its
// bytes.
const LeastCost = 64

// Cost is what a frame counts against the window.
func Cost(bytes int) uint64 { return uint64(max(bytes, LeastCost)) }

// A Flow counts the bytes of frames in both directions since the beginning. The receiver tells up to
// which count the sender may send, by frames of the same trunk: so whatever the network loses, what the
// receiver has said before arrives before.
type Flow struct {
	Sent, Limit uint64 // by this end

	Received uint64 // from the other end
	Taken    uint64 // of these, what does not wait here any more
	Granted  uint64 // the other end's limit
}

// Init begins the counts.
func (f *Flow) Init() { *f = Flow{Limit: Window, Granted: Window} }

// Room reports whether a frame may be sent.
func (f *Flow) Room(cost uint64) bool { return f.Sent+cost <= f.Limit }

// Receive notes a frame, and reports false if the other end was not granted it.
func (f *Flow) Receive(cost uint64) bool {
	f.Received += cost
	return f.Received <= f.Granted
}

// GrantEvery is how much a grant changes the limit at least.
const GrantEvery = Window / 4

// Grant returns the new limit of the other end, if it is to be told.
func (f *Flow) Grant() (limit uint64, ok bool) {
	if f.Taken+Window-f.Granted < GrantEvery {
		return 0, false
	}
	f.Granted = f.Taken + Window
	return f.Granted, true
}

// Raise takes a limit, and reports false if the other end cannot have granted it.
func (f *Flow) Raise(limit uint64) bool {
	if limit <= f.Limit || limit > f.Sent+Window {
		return false
	}
	f.Limit = limit
	return true
}
