package msg

import (
	"encoding/binary"
	"errors"
	"fmt"

	"softrdma/msg/internal/regcache"
	"softrdma/msg/internal/slots"
	"softrdma/msg/internal/word"
	"softrdma/verbs"
)

const (
	maxAccesses = 64  // accesses in flight
	shortAccess = 256 // bytes that are copied instead of registered
)

// An accessKind is what an access does.
type accessKind uint8

const (
	accessPut accessKind = iota
	accessGet
	accessAtomic
	accessFlush
)

// An access is an operation on a peer's memory.
type access struct {
	kind    accessKind
	fenced  bool // begins after all accesses before it
	request *Request
	address uint64
	keys    []uint32               // of the region, by the peer's devices
	order   uint64                 // of all accesses of a pipeline
	data    []byte                 // the bytes of a put or the buffer of a get
	memory  *regcache.Registration // of data, nil if it is short
	atomic  word.Op
	frames  uint64 // that a flush is behind
}

// A pipeline carries out the accesses of one connection, in order. The worker's lock guards it.
type pipeline struct {
	c       *connection
	results slots.Memory // of atomics and short gets
	free    []int        // slots of posted
	posted  [maxAccesses]*access
	waiting []*access // for a slot, for loops or for their fence; oldest first
	loops   int       // atomics in flight that may need further compare-and-swaps
	fence   bool      // of the next access
	unsure  bool      // an access or a frame was posted since the last flush was
	flushes int       // in flight
	order   uint64    // of the last access
}

// prepare makes what accesses need, before the first of them.
func (p *pipeline) prepare() (err error) {
	if p.results.Registered() {
		return nil
	}
	if p.results, err = slots.New(p.c.rail.pd, maxAccesses, shortAccess); err != nil {
		p.release()
		p.results = slots.Memory{}
		return err
	}
	for i := range maxAccesses {
		p.free = append(p.free, i)
	}
	return nil
}

// add begins an access, or keeps it until the accesses before it have begun. The caller holds the
// lock and calls Worker.flush.
func (p *pipeline) add(x *access) {
	if p.c.err == nil && (x.kind != accessFlush || p.unsure) {
		if err := p.prepare(); err != nil {
			p.end(x, err)
			return
		}
	}
	if p.c.err != nil {
		p.end(x, p.c.err)
		return
	}
	x.fenced = x.fenced || p.fence
	p.fence = false
	p.order++
	x.order = p.order
	if len(p.waiting) > 0 || !p.begin(x) {
		p.waiting = append(p.waiting, x)
	}
}

// begin posts an access, and reports whether it could be posted now.
func (p *pipeline) begin(x *access) bool {
	switch {
	case x.kind == accessFlush && p.loops == 0 && !p.unsure && p.flushes == 0:
		p.end(x, nil) // everything before it is complete
		return true
	case len(p.free) == 0, p.loops > 0 && (x.fenced || x.kind == accessFlush):
		return false
	}
	i := p.free[len(p.free)-1]
	p.free = p.free[:len(p.free)-1]
	p.posted[i] = x
	if x.kind == accessAtomic && x.atomic.Loop() {
		p.loops++
	}
	if p.unsure = x.kind != accessFlush; !p.unsure {
		p.flushes++
	}
	p.fail(p.post(i, x))
	return true
}

// fail records that a request could not be posted. Worker.flush ends the connection then, because
// the requests of this function's callers may not end here.
func (p *pipeline) fail(err error) {
	if err != nil && p.c.broken == nil {
		p.c.broken = err
		p.c.w.dirty = append(p.c.w.dirty, p.c)
	}
}

// post posts the work request of the access in a slot.
func (p *pipeline) post(i int, x *access) error {
	r := verbs.SendWR{WRID: p.c.id(workAccess, i), RemoteAddr: x.address, Flags: verbs.Signaled}
	if x.keys != nil {
		r.RKey = x.keys[p.c.remote]
	}
	if x.fenced {
		r.Flags |= verbs.Fence
	}
	short := len(x.data) <= shortAccess
	switch {
	case x.kind == accessPut && short:
		r.Op, r.Inline = verbs.OpWrite, x.data
	case x.kind == accessAtomic:
		x.atomic.Fill(&r)
		r.SGL = p.c.entry(p.results.SGE(i, 8))
	case x.kind == accessFlush:
		r.Op = verbs.OpRead // of no bytes: its response follows all that came before
		x.frames = p.c.sent.Total
	case short:
		r.Op = verbs.OpRead
		r.SGL = p.c.entry(p.results.SGE(i, len(x.data)))
	default:
		if r.Op = verbs.OpWrite; x.kind == accessGet {
			r.Op = verbs.OpRead
		}
		var err error
		if x.memory, err = p.c.rail.cache.Register(x.data, x.kind == accessGet); err != nil {
			return err
		}
		r.SGL = p.c.entry(x.memory.MR.SGE(0, len(x.data)))
	}
	var err error
	if x.kind == accessPut {
		err = p.c.postWrite(&r)
	} else {
		err = p.c.postBehind(&r)
	}
	if err == nil && x.kind == accessPut && short {
		again := p.c.keep(x.data)
		p.settle(x, nil) // the bytes are copied
		x.data = again
	}
	return err
}

// complete takes the completion of the access in a slot.
func (p *pipeline) complete(i int) {
	x := p.posted[i]
	result := p.results.Bytes(i)
	switch {
	case x.kind == accessAtomic:
		if again := x.atomic.Take(binary.NativeEndian.Uint64(result)); again {
			x.fenced = false
			p.fail(p.post(i, x))
			return
		}
		if x.atomic.Loop() {
			p.loops--
		}
	case x.kind == accessGet && x.memory == nil:
		copy(x.data, result)
	case x.kind == accessFlush:
		p.flushes--
		p.c.vacant = p.c.sent.Before(x.frames, p.c.vacant)
	}
	p.posted[i] = nil
	p.free = append(p.free, i)
	p.end(x, nil)
	p.resume()
}

// resume begins accesses that waited.
func (p *pipeline) resume() {
	n := 0
	for n < len(p.waiting) && p.c.broken == nil && p.begin(p.waiting[n]) {
		n++
	}
	k := copy(p.waiting, p.waiting[n:])
	clear(p.waiting[k:])
	p.waiting = p.waiting[:k]
}

// idle reports whether all accesses are complete.
func (p *pipeline) idle() bool {
	return len(p.waiting) == 0 && (!p.results.Registered() || len(p.free) == maxAccesses)
}

// release gives back the memory of results.
func (p *pipeline) release() {
	p.results.Deregister()
	p.results.Free()
}

// endAll ends all accesses of a connection that has failed. The device does not use their memory
// any more.
func (p *pipeline) endAll(err error) {
	for i, x := range p.posted {
		if x != nil {
			p.posted[i] = nil
			p.end(x, err)
		}
	}
	waiting := p.waiting
	p.waiting = nil
	for _, x := range waiting {
		p.end(x, err)
	}
}

// end ends an access and its part of its request.
func (p *pipeline) end(x *access, err error) {
	p.settle(x, err)
	w := p.c.w
	if len(w.spareAccesses) < maxSpare {
		*x = access{}
		w.spareAccesses = append(w.spareAccesses, x)
	}
}

// settle ends an access's part of its request. The program may change or use the data then.
func (p *pipeline) settle(x *access, err error) {
	if x.memory != nil {
		x.memory.Release()
		x.memory = nil
	}
	x.data = nil
	if r := x.request; r != nil {
		x.request = nil
		r.endPart(err)
	}
}

// endPart ends one of the accesses of a request, and the request with the last of them. The caller
// holds the lock.
func (r *Request) endPart(err error) {
	if r.err == nil {
		r.err = err
	}
	if r.parts--; r.parts == 0 {
		r.end(r.info, r.err)
	}
}

// access returns an unused access that is a part of a request, if that is not nil.
func (w *Worker) access(r *Request, kind accessKind) *access {
	if r != nil {
		r.parts++
	}
	var x *access
	if n := len(w.spareAccesses); n > 0 {
		x = w.spareAccesses[n-1]
		w.spareAccesses = w.spareAccesses[:n-1]
	} else {
		x = new(access)
	}
	x.request, x.kind = r, kind
	return x
}

// why returns why a connection ends with an unsuccessful completion. Both ends of a refused access
// report the refusal.
func (c *connection) why(wc *verbs.WC) error {
	err := wc.Err()
	status := wc.Status
	if e := (*verbs.CompletionError)(nil); status == verbs.WRFlushErr && errors.As(err, &e) {
		status = verbs.Status(e.Found()) // of the first error
	}
	if status == verbs.RemAccessErr {
		return fmt.Errorf("%w: %w", ErrRefused, err)
	}
	if cause := c.conn.Err(); cause != nil {
		return cause // of flushed work
	}
	return err
}
