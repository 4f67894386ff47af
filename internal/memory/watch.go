package memory

import (
	"sync/atomic"

	"softrdma/internal/qp"
)

// A Watcher is told what the device writes to watched regions.
type Watcher interface {
	// Writing is called before the device writes to b, which is memory of a region, and Wrote after it
	// has, by the same goroutine. Between the two calls b is the device's.
	Writing(b []byte)
	Wrote()
}

// watch is what is noted about a region and its windows.
type watch struct {
	used atomic.Uint32 // remote rights that peers have used
	to   Watcher
}

// Watch makes the region note which rights peers use, and tell w what the device writes to it. It is called
// before a peer knows the key. Sockets do not write to a watched region by themselves (see Place).
func (r *Region) Watch(w Watcher) { r.watched = &watch{to: w} }

// remoteRights are those that a peer can use.
const remoteRights = qp.RemoteWrite | qp.RemoteRead | qp.RemoteAtomic

// UnusedRights returns the remote rights of a watched region that no peer has used. They are not
// known if peers on this host may have mapped the memory, or if windows may be bound to it.
func (r *Region) UnusedRights() (unused qp.Access, known bool) {
	if r.watched == nil || r.segment != nil || r.Access&qp.MWBind != 0 {
		return 0, false
	}
	return r.Access & remoteRights &^ qp.Access(r.watched.used.Load()), true
}

// copyTo copies data to b, which is memory of the region.
func (r *Region) copyTo(b, data []byte) (ok bool) {
	if r.watched != nil || r.unpinned {
		return r.copySlowly(b, data)
	}
	copy(b, data)
	return true
}

// copySlowly is copyTo for watched or unpinned regions.
func (r *Region) copySlowly(b, data []byte) (ok bool) {
	if w := r.watched; w != nil {
		w.to.Writing(b)
		defer w.to.Wrote()
	}
	if r.unpinned {
		return CopyUnpinned(b, data)
	}
	copy(b, data)
	return true
}

// writingWord tells the watcher, if there is one, that the 8-byte word at addr is going to change. The caller
// calls what it returns after that.
func (r *Region) writingWord(addr uint64) (wrote func()) {
	b := r.Bytes(addr, 8)
	if r.watched == nil || b == nil {
		return func() {}
	}
	r.watched.to.Writing(b)
	return r.watched.to.Wrote
}
