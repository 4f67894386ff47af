package access

import (
	"cmp"
	"encoding/binary"
	"slices"

	"softrdma/internal/carrier"
	"softrdma/msg/internal/regcache"
	"softrdma/verbs"
)

// A Port posts the work requests of a pipeline on a connection, in order with the connection's frames.
type Port interface {
	// Err returns why the connection has ended. Then nothing is posted.
	Err() error
	// Fail records that a request could not be posted. The owner ends the connection later, because
	// the operations of the pipeline's callers may not end during their calls. Failed reports whether
	// that is due.
	Fail(err error)
	Failed() bool

	// Post posts a work request behind all frames that were sent. It may change the request and does not
	// keep it. The owner gives its completion to Pipeline.Complete, with the slot.
	Post(slot int, r *verbs.SendWR) error

	// Frames returns how many frames were sent. Arrived says that the first so many are complete.
	Frames() uint64
	Arrived(frames uint64)
}

// A Config says what a pipeline works with.
type Config struct {
	Port   Port
	Domain *carrier.Domain
	Rail   *carrier.Rail
	Cache  *regcache.Cache // of Domain on Rail
	Device int             // the peer's, whose keys are used. It may change before the first access.
	Repeat bool            // short puts keep their bytes, because they may begin again elsewhere: see Rescue
}

// A Pipeline executes the accesses of one connection, in order. The zero value is an empty pipeline.
// Config is set before the first access.
type Pipeline struct {
	Config
	results carrier.Frames // of atomics and short gets
	ready   bool           // there are results
	free    []int          // slots of posted
	posted  [Max]*Access
	waiting []*Access // for a slot, for loops or for their fence; oldest first
	loops   int       // atomics in flight that may need further compare-and-swaps
	fence   bool      // of the next access
	unsure  bool      // an access was posted after the last flush
	flushed uint64    // frames that were posted before that
	flushes int       // in flight
	order   uint64    // of the last access

	request verbs.SendWR // that is being posted
	sge     [1]verbs.SGE // of request
}

// prepare allocates what accesses need, before the first of them.
func (p *Pipeline) prepare() (err error) {
	if p.ready {
		return nil
	}
	if p.results, err = p.Domain.Frames(Max, Short, verbs.LocalWrite, p.Rail); err != nil {
		return err
	}
	p.ready = true
	for i := range Max {
		p.free = append(p.free, i)
	}
	return nil
}

// Add begins an access, or keeps it until the accesses before it have begun.
func (p *Pipeline) Add(x *Access) {
	err := p.Port.Err()
	if err == nil && (x.kind != Flush || p.behind()) {
		err = p.prepare()
	}
	if err != nil {
		x.End(err)
		return
	}
	x.Fenced = x.Fenced || p.fence
	p.fence = false
	p.order++
	x.order = p.order
	if len(p.waiting) > 0 || !p.begin(x) {
		p.waiting = append(p.waiting, x)
	}
}

// Fence orders the next access behind those before it.
func (p *Pipeline) Fence() { p.fence = true }

// behind reports whether accesses or frames were posted after the last flush.
func (p *Pipeline) behind() bool { return p.unsure || p.Port.Frames() != p.flushed }

// begin posts an access, and reports whether it could be posted now.
func (p *Pipeline) begin(x *Access) bool {
	switch {
	case x.kind == Flush && p.loops == 0 && !p.behind() && p.flushes == 0:
		x.End(nil) // everything before it is complete
		return true
	case len(p.free) == 0, p.loops > 0 && (x.Fenced || x.kind == Flush):
		return false
	}
	i := p.free[len(p.free)-1]
	p.free = p.free[:len(p.free)-1]
	p.posted[i] = x
	if x.kind == Atomic && x.Atomic.Loop() {
		p.loops++
	}
	if p.unsure = x.kind != Flush; !p.unsure {
		p.flushes++
		p.flushed = p.Port.Frames()
	}
	p.post(i, x)
	return true
}

// post posts the work request of the access in a slot.
func (p *Pipeline) post(i int, x *Access) {
	err := p.fill(i, x)
	if err == nil {
		err = p.Port.Post(i, &p.request)
	}
	p.request.Inline = nil // the program's
	if err != nil {
		p.Port.Fail(err)
		return
	}
	if x.kind == Put && len(x.Data) <= Short {
		var again []byte
		if p.Repeat {
			again = slices.Clone(x.Data)
		}
		x.settle(nil) // the bytes are copied
		x.Data = again
	}
}

// fill makes the work request of the access in a slot.
func (p *Pipeline) fill(i int, x *Access) (err error) {
	r := &p.request
	*r = verbs.SendWR{RemoteAddr: x.Address, Flags: verbs.Signaled}
	if x.Keys != nil {
		r.RKey = x.Keys[p.Device]
	}
	if x.Fenced {
		r.Flags |= verbs.Fence
	}
	short := len(x.Data) <= Short
	switch {
	case x.kind == Put && short:
		r.Op, r.Inline = verbs.OpWrite, x.Data
	case x.kind == Atomic:
		x.Atomic.Fill(r)
		r.SGL = p.entry(p.results.SGE(i, 8))
	case x.kind == Flush:
		r.Op = verbs.OpRead // of no bytes: its response follows all that came before
		x.frames = p.Port.Frames()
	case short:
		r.Op = verbs.OpRead
		r.SGL = p.entry(p.results.SGE(i, len(x.Data)))
	default:
		if r.Op = verbs.OpWrite; x.kind == Get {
			r.Op = verbs.OpRead
		}
		if x.memory, err = p.Cache.Register(x.Data, x.kind == Get); err != nil {
			return err
		}
		r.SGL = p.entry(x.memory.MR.SGE(0, len(x.Data)))
	}
	return nil
}

// entry returns a list of one entry for the request.
func (p *Pipeline) entry(e verbs.SGE) []verbs.SGE {
	p.sge[0] = e
	return p.sge[:]
}

// Complete takes the completion of the access in a slot.
func (p *Pipeline) Complete(i int) {
	x := p.posted[i]
	result := p.results.Bytes(i)
	switch {
	case x.kind == Atomic:
		if again := x.Atomic.Take(binary.NativeEndian.Uint64(result)); again {
			x.Fenced = false
			p.post(i, x)
			return
		}
		if x.Atomic.Loop() {
			p.loops--
		}
	case x.kind == Get && x.memory == nil:
		copy(x.Data, result)
	case x.kind == Flush:
		p.flushes--
		p.Port.Arrived(x.frames)
	}
	p.posted[i] = nil
	p.free = append(p.free, i)
	x.End(nil)
	p.resume()
}

// resume begins accesses that waited.
func (p *Pipeline) resume() {
	n := 0
	for n < len(p.waiting) && !p.Port.Failed() && p.begin(p.waiting[n]) {
		n++
	}
	k := copy(p.waiting, p.waiting[n:])
	clear(p.waiting[k:])
	p.waiting = p.waiting[:k]
}

// Idle reports whether all accesses are complete.
func (p *Pipeline) Idle() bool {
	return len(p.waiting) == 0 && (!p.ready || len(p.free) == Max)
}

// Rescue returns the accesses of a connection that has failed, in order, to begin them again on
// another. Atomic operations in flight end with ErrUncertain.
func (p *Pipeline) Rescue() (list []*Access) {
	for i, x := range p.posted {
		if x == nil {
			continue
		}
		p.posted[i] = nil
		if x.kind == Atomic {
			x.End(ErrUncertain)
			continue
		}
		x.unregister()
		list = append(list, x)
	}
	slices.SortFunc(list, func(a, b *Access) int { return cmp.Compare(a.order, b.order) })
	list = append(list, p.waiting...)
	p.waiting = nil
	return list
}

// End ends all accesses of a connection that has failed. The device does not use their memory any
// more.
func (p *Pipeline) End(err error) {
	for i, x := range p.posted {
		if x != nil {
			p.posted[i] = nil
			x.End(err)
		}
	}
	waiting := p.waiting
	p.waiting = nil
	for _, x := range waiting {
		x.End(err)
	}
}

// Release frees the memory of results.
func (p *Pipeline) Release() { p.results.Free() }
