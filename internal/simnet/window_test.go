package simnet_test

import (
	"softrdma/internal/memory"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
)

// A window is a memory window over an end's target, which its peer uses.
type window struct {
	kind  memory.Kind
	state windowState
	key   uint32
	next  uint32 // key after the pending bind
	off   int
	n     int
	based bool // addresses start at 0
}

type windowState int

const (
	windowIdle windowState = iota
	windowBinding
	windowBound
	windowEnding
)

func (e *end) newWindow() {
	k := memory.MW2
	if e.w.chance(30) {
		k = memory.MW1
	}
	key, err := e.h.PD.AllocWindow(k)
	if err != nil {
		e.w.fail("%v", err)
		return
	}
	e.window = &window{kind: k, key: key}
}

// freeWindow frees the window under its last key.
func (e *end) freeWindow() {
	if v := e.window; v != nil && e.h.PD.FreeWindow(v.key) != nil {
		e.w.check(e.h.PD.FreeWindow(v.next))
	}
}

// makeWindow makes a request that binds or invalidates a window, if possible.
func (e *end) makeWindow() *wr {
	if v := e.window; v != nil && v.state == windowIdle && e.w.chance(30) {
		return e.bind(v)
	}
	if v := e.window; v != nil && v.state == windowBound && e.w.chance(15) && !e.peer.uses(v) {
		return e.unbind(v)
	}
	if v := e.peer.window; v != nil && v.state == windowBound && v.kind == memory.MW2 && e.w.chance(15) {
		r := e.makeSend()
		r.Op, r.ImmInv = queue.SendInv, v.key
		v.state = windowEnding
		key := v.key
		r.done = func(ok bool) { // called twice: for this completion and the peer's
			if ok && v.key == key && v.state == windowEnding {
				v.state = windowIdle
			}
		}
		return r
	}
	return nil
}

func (e *end) bind(v *window) *wr {
	r := &wr{}
	r.Op = queue.BindMW
	v.n = 1 + e.w.rng.IntN(len(e.target.mem))
	v.off = e.w.rng.IntN(len(e.target.mem) - v.n + 1)
	v.next = v.key&^0xff | (v.key+1)&0xff
	access := qp.RemoteWrite | qp.RemoteRead
	if v.based = v.kind == memory.MW2 && e.w.chance(30); v.based {
		access |= qp.ZeroBased
	}
	r.MW = queue.MW{
		Addr: e.target.base + uint64(v.off), Length: uint64(v.n), MRLKey: e.target.region.Key, MWRKey: v.key,
		RKey: v.next, Access: uint32(access),
	}
	v.state = windowBinding
	r.done = func(ok bool) {
		if ok {
			v.key, v.state = v.next, windowBound
		}
	}
	return r
}

func (e *end) unbind(v *window) *wr {
	r := &wr{}
	v.state = windowEnding
	if v.kind == memory.MW2 {
		r.Op, r.ImmInv = queue.LocalInv, v.key
		r.done = func(ok bool) {
			if ok {
				v.state = windowIdle
			}
		}
		return r
	}
	v.next = v.key&^0xff | (v.key+1)&0xff
	r.Op, r.MW = queue.BindMW, queue.MW{MWRKey: v.key, RKey: v.next}
	r.done = func(ok bool) {
		if ok {
			v.key, v.state = v.next, windowIdle
		}
	}
	return r
}

// uses reports whether a pending request of this end uses the window.
func (e *end) uses(v *window) bool {
	for _, p := range e.pending {
		if p.RKey == v.key {
			return true
		}
	}
	return false
}

// throughWindow makes a WRITE use the peer's window if it is bound.
func (e *end) throughWindow(r *wr, n int) {
	v := e.peer.window
	if v.state != windowBound || n > v.n {
		return
	}
	at := e.w.rng.IntN(v.n - n + 1)
	r.off = v.off + at
	r.RKey, r.Addr = v.key, r.to.base+uint64(r.off)
	if v.based {
		r.Addr = uint64(at)
	}
}
