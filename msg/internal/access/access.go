// Package access executes accesses to a peer's memory: puts, gets, atomic operations, and flushes,
// which wait for what came before. A Pipeline decides when each access of a connection begins and
// what its completion means. A Port posts the work requests: the package knows neither frames nor
// queue pairs.
//
// The owner of the pipelines serializes all calls.
package access

import (
	"errors"

	"softrdma/msg/internal/regcache"
	"softrdma/msg/internal/word"
)

const (
	Max   = 64  // accesses of a pipeline in flight
	Short = 256 // bytes that are copied instead of registered

	maxSpare = 1024 // accesses that a Pool keeps for reuse
)

var (
	// ErrUncertain is matched by the error of an atomic operation whose rail failed while it was in
	// flight. The peer may have executed it, so it is not repeated.
	ErrUncertain = errors.New("rail failed during an atomic operation, which may have been carried out")
)

// A Kind is what an access does.
type Kind uint8

// The kinds.
const (
	Put Kind = iota
	Get
	Atomic
	Flush
)

// An Access is an operation on a peer's memory. The caller sets the exported fields before it gives
// the access to a Pipeline.
type Access struct {
	Fenced  bool // begins after all accesses before it
	Address uint64
	Keys    []uint32 // of the region, by the peer's devices
	Data    []byte   // the bytes of a put or the buffer of a get
	Atomic  word.Op

	kind      Kind
	pool      *Pool
	operation *Operation             // nil if the program does not wait for the end
	order     uint64                 // its number in the pipeline
	memory    *regcache.Registration // of Data, nil if that is short
	frames    uint64                 // of a flush: frames that were sent before it
}

// End completes an access that has left its pipeline and releases its share of the operation.
func (x *Access) End(err error) {
	x.settle(err)
	p := x.pool
	if len(p.spare) < maxSpare {
		*x = Access{pool: p}
		p.spare = append(p.spare, x)
	}
}

// settle releases the access's share of its operation. Afterwards the program may change or use the data.
func (x *Access) settle(err error) {
	x.unregister()
	x.Data = nil
	if o := x.operation; o != nil {
		x.operation = nil
		o.End(err)
	}
}

func (x *Access) unregister() {
	if x.memory != nil {
		x.memory.Release()
		x.memory = nil
	}
}

// An Operation is a group of accesses whose end the program sees as one. The zero value has none.
type Operation struct {
	owner any
	pool  *Pool
	parts int   // that have not ended
	err   error // of the first that failed
}

// End ends a part of an operation, and the operation with the last one.
func (o *Operation) End(err error) {
	if o.err == nil {
		o.err = err
	}
	if o.parts--; o.parts == 0 {
		o.pool.Ended(o.owner, o.err)
	}
}

// A Pool allocates accesses, and reuses those that have ended.
type Pool struct {
	Ended func(owner any, err error) // called when all accesses of an operation have ended
	spare []*Access
}

// Begin begins an operation. The caller calls End once when it has made all accesses of the operation,
// which does not end earlier.
func (p *Pool) Begin(o *Operation, owner any) *Operation {
	*o = Operation{owner: owner, pool: p, parts: 1}
	return o
}

// Access returns an unused access, as a part of the operation unless that is nil.
func (p *Pool) Access(o *Operation, kind Kind) *Access {
	var x *Access
	if n := len(p.spare); n > 0 {
		x = p.spare[n-1]
		p.spare = p.spare[:n-1]
	} else {
		x = &Access{pool: p}
	}
	if x.operation, x.kind = o, kind; o != nil {
		o.parts++
	}
	return x
}
