package machine

import (
	"softrdma/internal/memory"
	"softrdma/internal/reason"
)

// A Source has the payload of a packet that is still in another process. A machine that knows where
// the payload goes copies it there at once.
type Source interface {
	// Load copies the bytes of the payload at offset off to dst, and reports whether it could. If
	// not, as when dst is not mapped, the packet counts as lost. Its repetition finds out why.
	Load(dst []byte, off int) bool
}

// Load copies the payload to Payload if that is still to do, and reports whether it could. If not,
// the packet counts as lost.
func (in *In) Load() bool {
	s := in.Source
	in.Source = nil
	return s == nil || s.Load(in.Payload, 0)
}

// Scatter copies the payload to message offset pos of a list. It reports false if the payload cannot
// be read: the packet counts as lost.
func (in *In) Scatter(c *memory.Cursor, t *memory.Table, pd uint32, list []memory.SGE, pos uint64) (came bool, d reason.Detail) {
	if in.Source == nil {
		return true, c.Scatter(t, pd, list, pos, in.Payload)
	}
	var room [4][]byte // enough for most lists
	to, direct, d := c.LoadPlaces(t, pd, list, pos, len(in.Payload), room[:0])
	if d.Reason != reason.None {
		return true, d
	}
	if !direct {
		if !in.Load() {
			return false, d
		}
		return true, c.Scatter(t, pd, list, pos, in.Payload)
	}
	done := 0
	for _, b := range to {
		if !in.Source.Load(b, done) {
			return false, d
		}
		done += len(b)
	}
	return true, d
}

// Put copies the payload to an address of a region. Its results are those of Scatter.
func (in *In) Put(r *memory.Region, addr uint64) (came bool, d reason.Detail) {
	if in.Source != nil {
		if b := r.LoadPlace(addr, len(in.Payload)); b != nil {
			return in.Source.Load(b, 0), d
		}
		if !in.Load() {
			return false, d
		}
	}
	return true, r.Put(addr, in.Payload)
}
