package simnet_test

import (
	"softrdma/internal/memory"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/simnet/rig"
)

// A trouble is what goes wrong on a connection on purpose, at most once.
type trouble int

const (
	noTrouble trouble = iota
	badRKey           // no such key at the peer
	beyondRegion
	noRight       // the region is there, the right is not
	oddAtomic     // not aligned
	badLKey       // no such key here
	beyondLocal   // an entry outside of its region
	longSend      // longer than any receive
	badBind       // a window over nothing
	badInvalidate // SEND with invalidate of no window
	badOperation
	peerDestroyed
	peerToErr
	selfToErr
	troubles
)

// length draws a message's length: none, small, around multiples of the path
// MTU, or long.
func (w *world) length(most int) int {
	n := 0
	switch r := w.rng.IntN(100); {
	case r < 8:
	case r < 35:
		n = 1 + w.rng.IntN(64)
	case r < 60:
		n = max(0, (256<<w.rng.IntN(5))*(1+w.rng.IntN(3))+w.rng.IntN(3)-1)
	case r < 85:
		n = w.rng.IntN(4096)
	case r < 96:
		n = w.rng.IntN(16 << 10)
	default:
		n = w.rng.IntN(64<<10 + 1)
	}
	return min(n, most)
}

// make draws the next request, nil when it cannot be posted now.
func (e *end) make() *wr {
	w := e.w
	if e.kind == qp.UD {
		return e.makeDatagram()
	}
	if e.failed || e.peer.dead {
		return e.makeSend()
	}
	if e.trouble != noTrouble && e.budget <= e.troubleAt+1 && !e.caused {
		return e.makeTrouble()
	}
	if e.kind == qp.UC {
		if w.chance(2) {
			r := e.makeSend()
			return e.spoilLocal(r)
		}
		if w.chance(50) {
			return e.makeSend()
		}
		return e.makeWrite()
	}
	if r := e.makeWindow(); r != nil {
		return r
	}
	switch k := w.rng.IntN(100); {
	case k < 35:
		return e.makeSend()
	case k < 65:
		return e.makeWrite()
	case k < 75:
		return e.makeRead()
	case k < 80:
		return e.makeReadBack()
	case k < 85:
		return e.makeForward()
	}
	return e.makeAtomic()
}

// payload gives a request its data, inline or gathered.
func (e *end) payload(r *wr, n int) {
	if n <= e.inline && e.w.chance(40) {
		r.Inline = gather(e.w.anywhere(e.h.source, n, 3))
		if r.Inline == nil {
			r.Inline = []byte{}
		}
		r.data = r.Inline
		return
	}
	list := e.w.anywhere(e.h.source, n, e.maxSGE)
	r.SGEs, r.data = entries(list), gather(list)
}

func (e *end) makeSend() *wr {
	r := &wr{consumes: true}
	r.Op = queue.Send
	e.payload(r, e.w.length(e.peer.slots.size))
	if e.w.chance(40) {
		r.Op, r.ImmInv = queue.SendImm, e.w.rng.Uint32()
	}
	if e.w.chance(30) {
		r.Flags |= queue.Solicited
	}
	return r
}

// makeWrite writes to the peer's target: on an unreliable connection to a part
// that no other WRITE touches, so that every byte has one explanation.
func (e *end) makeWrite() *wr {
	t := e.peer.target
	r := &wr{to: t}
	r.Op = queue.Write
	n := e.w.length(len(t.mem))
	e.payload(r, n)
	r.off = e.w.rng.IntN(len(t.mem) - n + 1)
	r.Addr, r.RKey = t.base+uint64(r.off), t.region.Key
	if n == 0 && e.w.chance(50) {
		r.RKey, r.Addr = e.w.rng.Uint32(), e.w.rng.Uint64() // C9-88: not looked at
	}
	if e.w.chance(25) {
		r.Op, r.ImmInv, r.consumes = queue.WriteImm, e.w.rng.Uint32(), true
		if e.w.chance(30) {
			r.Flags |= queue.Solicited
		}
	}
	if e.peer.window != nil && n > 0 && e.kind == qp.RC && e.w.chance(60) {
		e.throughWindow(r, n)
	}
	return r
}

// room finds n bytes among the results that no pending request uses.
func (e *end) room(n int) (int, bool) {
	for range 8 {
		off := 8 * e.w.rng.IntN((len(e.results.mem)-n)/8)
		free := true
		for _, p := range e.pending {
			for _, s := range p.result {
				free = free && (off >= s.off+s.n || off+n <= s.off)
			}
			for _, g := range p.SGEs {
				at := int(g.Addr - e.results.base)
				if g.LKey == e.results.region.Key {
					free = free && (off >= at+int(g.Length) || off+n <= at)
				}
			}
		}
		if free {
			return off, true
		}
	}
	return 0, false
}

func (e *end) makeRead() *wr {
	src := e.peer.h.readable
	n := e.w.length(64 << 10)
	off, ok := e.room(n)
	if !ok {
		return e.makeWrite()
	}
	r := &wr{}
	r.Op = queue.Read
	r.result = e.w.cut(e.results, off, n, e.maxSGE)
	at := e.w.rng.IntN(len(src.mem) - n + 1)
	r.data = src.mem[at : at+n]
	r.SGEs, r.Addr, r.RKey = entries(r.result), src.base+uint64(at), src.region.Key
	if n == 0 && e.w.chance(50) {
		r.RKey = e.w.rng.Uint32()
	}
	return r
}

// makeReadBack READs what this end wrote. The request behind it is fenced, so
// that nothing changes the memory before it was read.
func (e *end) makeReadBack() *wr {
	t := e.peer.target
	n := 1 + e.w.length(16<<10)
	off, ok := e.room(n)
	if !ok {
		return e.makeWrite()
	}
	r := &wr{from: t, off: e.w.rng.IntN(len(t.mem) - n + 1)}
	r.Op = queue.Read
	r.result = e.w.cut(e.results, off, n, e.maxSGE)
	r.data = make([]byte, n)
	r.SGEs, r.Addr, r.RKey = entries(r.result), t.base+uint64(r.off), t.region.Key
	return r
}

// makeForward sends on what the READ before it brought: the fence makes it
// wait for that (IBTA 10.8.3.3).
func (e *end) makeForward() *wr {
	for i := len(e.pending) - 1; i >= 0; i-- {
		p := e.pending[i]
		if p.Op != queue.Read || p.from != nil || len(p.data) == 0 || len(p.data) > e.peer.slots.size || p.RKey == 0 {
			continue
		}
		r := &wr{consumes: true, data: p.data}
		r.Op, r.Flags, r.SGEs = queue.Send, queue.Fence, p.SGEs
		return r
	}
	return e.makeRead()
}

func (e *end) makeAtomic() *wr {
	off, ok := e.room(8)
	if !ok {
		return e.makeWrite()
	}
	r := &wr{result: e.w.cut(e.results, off, 8, e.maxSGE)}
	r.SGEs = entries(r.result)
	if e.w.chance(40) {
		r.sharing = true
		s := e.peer.h.shared
		r.Op, r.CompareAdd, r.Addr, r.RKey = queue.FetchAdd, 1, s.base, s.region.Key
		return r
	}
	r.to, r.word = e.peer.words, e.w.rng.IntN(4)
	r.Addr, r.RKey = r.to.base+uint64(8*r.word), r.to.region.Key
	if e.w.chance(50) {
		r.Op, r.CompareAdd = queue.FetchAdd, e.w.rng.Uint64()
		return r
	}
	r.Op, r.Swap, r.CompareAdd = queue.CompareSwap, e.w.rng.Uint64(), e.w.rng.Uint64()
	if e.w.chance(60) {
		r.CompareAdd = e.foresee(r.word)
	}
	return r
}

// foresee is what a word of the peer will be when all that is posted is done.
func (e *end) foresee(i int) uint64 {
	v := e.peer.counts[i]
	for _, p := range e.pending {
		if p.to == e.peer.words && p.word == i {
			v = p.operate(v)
		}
	}
	return v
}

// spoilLocal makes a request whose own memory is wrong.
func (e *end) spoilLocal(r *wr) *wr {
	r.Inline, r.Flags = nil, r.Flags&^queue.Inline
	r.SGEs = []memory.SGE{{Addr: e.h.source.base, Length: 16, LKey: e.h.source.region.Key ^ 0x5a00}}
	r.expect = []queue.Status{queue.LocProtErr}
	return r
}

// makeTrouble makes the request that ends the connection, or ends it otherwise.
func (e *end) makeTrouble() *wr {
	w, t := e.w, e.peer.target
	e.caused = true
	access := []queue.Status{queue.RemAccessErr}
	switch e.trouble {
	case badRKey, beyondRegion, noRight:
		r := e.makeWrite()
		if w.chance(40) && e.kind == qp.RC {
			r = e.makeRead()
		}
		r.to, r.expect = nil, access
		r.Addr, r.RKey = t.base, t.region.Key^0x77700
		if len(r.data) == 0 {
			return e.spoilLocal(r)
		}
		switch e.trouble {
		case beyondRegion:
			r.Addr, r.RKey = t.base+uint64(len(t.mem)-len(r.data)+1), t.region.Key
		case noRight:
			r.Addr, r.RKey = e.peer.h.source.base, e.peer.h.source.region.Key
		}
		return r
	case oddAtomic:
		r := e.makeAtomic()
		r.to, r.sharing = nil, false
		r.Addr, r.RKey, r.expect = e.peer.words.base+4, e.peer.words.region.Key, []queue.Status{queue.RemInvReqErr}
		return r
	case badLKey:
		return e.spoilLocal(e.makeSend())
	case beyondLocal:
		r := e.spoilLocal(e.makeSend())
		r.SGEs = []memory.SGE{{Addr: e.h.source.base + 1<<17 - 15, Length: 16, LKey: e.h.source.region.Key}}
		return r
	case longSend:
		r := &wr{consumes: true, expect: []queue.Status{queue.RemInvReqErr}}
		r.Op = queue.Send
		list := w.anywhere(e.h.source, e.peer.slots.size+1+w.rng.IntN(2000), 1)
		r.SGEs, r.data = entries(list), gather(list)
		return r
	case badBind:
		r := &wr{expect: []queue.Status{queue.MWBindErr, queue.LocQPOpErr}}
		r.Op, r.MW = queue.BindMW, queue.MW{MWRKey: 0x12345678, RKey: 0x12345679, Length: 1}
		return r
	case badInvalidate:
		r := e.makeSend()
		r.Op, r.ImmInv = queue.SendInv, 0x12345678
		r.expect = []queue.Status{queue.Success, queue.RemAccessErr, queue.RemInvReqErr}
		return r
	case badOperation:
		r := e.makeSend()
		r.Op, r.expect, r.consumes = 77, []queue.Status{queue.LocQPOpErr}, false
		return r
	}
	e.makeEnd()
	return nil
}

// makeEnd ends one side of the connection without a word to the other.
func (e *end) makeEnd() {
	w := e.w
	switch e.trouble {
	case peerDestroyed:
		p := e.peer
		p.dead = true
		for _, r := range p.pending {
			p.unsure(r)
		}
		p.pending = nil
		w.check(p.q.Destroy())
	case peerToErr:
		e.peer.toErr = true
		w.check(rig.ToErr(e.peer.q))
	case selfToErr:
		e.toErr = true
		w.check(rig.ToErr(e.q))
	}
}

// A window is a memory window over an end's target, which its peer uses.
type window struct {
	kind  memory.Kind
	state windowState
	key   uint32
	next  uint32 // key after the bind that is pending
	off   int
	n     int
	based bool // addresses count from 0
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

// freeWindow frees the window under whichever key it ended with.
func (e *end) freeWindow() {
	if v := e.window; v != nil && e.h.PD.FreeWindow(v.key) != nil {
		e.w.check(e.h.PD.FreeWindow(v.next))
	}
}

// makeWindow makes a request that binds or ends a window, when there is one to.
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
		r.done = func(ok bool) { // told twice: by this completion and by the peer's
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
	if v.based = e.w.chance(30); v.based {
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

// uses tells whether a pending request of this end goes through the window.
func (e *end) uses(v *window) bool {
	for _, p := range e.pending {
		if p.RKey == v.key {
			return true
		}
	}
	return false
}

// throughWindow lets a WRITE go through the peer's window when it is bound.
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
