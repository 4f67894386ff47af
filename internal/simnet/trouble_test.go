package simnet_test

import (
	"softrdma/internal/memory"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/simnet/rig"
)

// A trouble is a deliberate error on a connection, at most one.
type trouble int

const (
	noTrouble trouble = iota
	badRKey           // unknown at the peer
	beyondRegion
	noRight       // the region exists, the right is missing
	oddAtomic     // not aligned
	badLKey       // unknown here
	beyondLocal   // an entry outside its region
	longSend      // longer than any receive
	badBind       // a window outside a region
	badInvalidate // SEND with invalidate of no window
	badOperation
	peerDestroyed
	peerToErr
	selfToErr
	troubles
)

// spoilLocal makes a request with an error in its own memory.
func (e *end) spoilLocal(r *wr) *wr {
	r.Inline, r.Flags = nil, r.Flags&^queue.Inline
	r.SGEs = []memory.SGE{{Addr: e.h.source.base, Length: 16, LKey: e.h.source.region.Key ^ 0x5a00}}
	r.expect = []queue.Status{queue.LocProtErr}
	return r
}

// makeTrouble makes the request that ends the connection, or ends it in another way.
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
		if r.Op == queue.Write || r.Op == queue.WriteImm { // there was no room for the result of an atomic
			r.expect = access
		}
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

// makeEnd ends one side of the connection without telling the other.
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
