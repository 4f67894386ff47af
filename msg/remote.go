package msg

import (
	"context"
	"fmt"

	"softrdma/msg/internal/access"
	"softrdma/msg/internal/format"
	"softrdma/msg/internal/word"
	"softrdma/verbs"
)

// Remote is a peer's region, seen from an endpoint. The peer's program takes no part in accesses.
//
// Accesses of one endpoint are executed in the order in which they began, with these exceptions:
// a put or an atomic may overtake a get or an atomic before it, and anything may overtake an atomic
// that is a loop (see Atomic64). Fence orders them, Flush waits for them. Messages are not ordered
// with accesses: wait for Flush before you send a message about them.
//
// An access that the peer refuses, with an error that matches ErrRefused, ends the endpoint.
type Remote struct {
	c   *connection
	key format.Key
}

// Remote returns the region that a key names. The error matches ErrKey or ErrVersion if key is not
// the key of a region, and ErrStale if it is not of the worker that the endpoint is connected to.
// The peer checks when it is accessed whether the region is still mapped.
func (e *Endpoint) Remote(key []byte) (*Remote, error) {
	k, err := format.ParseKey(key)
	if err != nil {
		return nil, err
	}
	if to := e.c.worker; to != 0 && k.Worker != to {
		return nil, fmt.Errorf("%w: key of worker %#x, the endpoint's is %#x", ErrStale, k.Worker, to)
	}
	if n := e.c.devices(); len(k.Keys) < n {
		return nil, fmt.Errorf("%w: for %d devices, the endpoint uses %d", ErrKey, len(k.Keys), n)
	}
	return &Remote{e.c, k}, nil
}

// View maps the region into this process, for reading without requests (UCX: ucp_rkey_ptr). The error
// matches ErrNoView unless the peer is on the same host and of the same user, and the region is of
// Worker.Allocate, of at least 16 KiB and with AllowGet. View asks the peer's device until ctx ends, and
// must not be called by a handler. The program closes the view. Until then its bytes stay, also after Unmap: they
// show what the peer stores there, as verbs.View says.
func (m *Remote) View(ctx context.Context) (*verbs.View, error) {
	w := m.c.w
	if err := m.key.Check(uint8(AllowGet), 0, 0); err != nil {
		return nil, err
	}
	w.e.Lock()
	c := m.c
	if c.logical() {
		if c = c.group.carrier(); c == nil {
			w.e.Unlock()
			return nil, ErrNoView
		}
	}
	qp, key := c.QP(), m.key.Keys[c.pipeline.Device]
	w.e.Unlock()
	v, err := qp.View(ctx, m.key.Address, key, m.Len())
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoView, err)
	}
	return v, nil
}

// Len returns the region's length in bytes.
func (m *Remote) Len() int { return int(m.key.Length) }

// Rights returns what the key allows.
func (m *Remote) Rights() Rights { return Rights(m.key.Rights) }

// Put writes data to the region at offset, of which each piece has at most verbs.MaxMessage bytes. The
// request ends when the program may change data again; the bytes may not be in the region then, see Flush. If the
// access is impossible the request ends with an error that matches ErrRights, ErrBounds or
// ErrTooLong. If the peer fails, it ends with an error that matches ErrPeer.
func (m *Remote) Put(offset int, data Buffers) *Request {
	return m.transfer(access.Put, AllowPut, offset, data)
}

// Get reads the bytes of the region at offset into buf. The request ends when they are there. Its errors
// and limits are those of Put.
func (m *Remote) Get(offset int, buf Buffers) *Request {
	return m.transfer(access.Get, AllowGet, offset, buf)
}

// transfer puts or gets pieces, which come one after the other in the region.
func (m *Remote) transfer(kind access.Kind, right Rights, offset int, list Buffers) *Request {
	w := m.c.w
	w.e.Lock()
	defer w.unlock()
	r := w.request()
	var err error
	end := offset
	for i := 0; i < len(list) && err == nil; i++ {
		err = m.key.Check(uint8(right), end, len(list[i]))
		end += len(list[i])
	}
	if err == nil { // the list may be empty
		err = m.key.Check(uint8(right), offset, 0)
	}
	if err != nil {
		r.end(Info{}, err)
		return r
	}
	r.info.Length = end - offset
	o := r.operation()
	for _, b := range list {
		if len(b) > 0 || m.c.err != nil {
			x := w.accesses.Access(o, kind)
			x.Address, x.Keys, x.Data = m.key.Address+uint64(offset), m.key.Keys, b
			m.c.access(x)
		}
		offset += len(b)
	}
	o.End(nil)
	w.e.Flush()
	return r
}

// An AtomicOp is what an atomic operation does with a word and its operand.
type AtomicOp uint8

// The operations. CompareSwap64 and CompareSwap32 are apart, because they have two operands.
const (
	AtomicAdd AtomicOp = iota + 1 // the numbers are those of package word
	AtomicSwap
	AtomicAnd
	AtomicOr
	AtomicXor
)

// Atomic64 changes the word of 64 bits at offset, in the byte order of the peer's processor. If old
// is not nil, the former value is stored there. The request ends when that has happened. The address
// in the peer's memory must be a multiple of 8, otherwise the error matches ErrAlignment; other
// errors are those of Put.
//
// All atomic operations of all peers on a word are atomic with each other. Puts are not. On devices
// with verbs.DeviceAttr.AtomicCap IBV_ATOMIC_GLOB they are atomic with package sync/atomic of the
// peer's program as well.
//
// AtomicAdd takes one round trip. The others are loops of compare-and-swaps by this side: two round
// trips, and more if others change the word at the same time.
func (m *Remote) Atomic64(op AtomicOp, offset int, operand uint64, old *uint64) *Request {
	return m.atomic(offset, word.Op{Kind: word.Kind(op), Operand: operand, Old64: old})
}

// CompareSwap64 sets the word of 64 bits at offset to swap if it is equal to compare. It takes one
// round trip, and is like Atomic64 otherwise.
func (m *Remote) CompareSwap64(offset int, compare, swap uint64, old *uint64) *Request {
	return m.atomic(offset, word.Op{Kind: word.CompareSwap, Compare: compare, Operand: swap, Old64: old})
}

// Atomic32 is like Atomic64 for a word of 32 bits, whose address is a multiple of 4. The aligned
// 64 bits around it must be in the region. All operations of 32 bits are loops.
func (m *Remote) Atomic32(op AtomicOp, offset int, operand uint32, old *uint32) *Request {
	return m.atomic(offset, word.Op{Kind: word.Kind(op), Narrow: true, Operand: uint64(operand), Old32: old})
}

// CompareSwap32 sets the word of 32 bits at offset to swap if it is equal to compare. It is like
// Atomic32 otherwise.
func (m *Remote) CompareSwap32(offset int, compare, swap uint32, old *uint32) *Request {
	return m.atomic(offset, word.Op{Kind: word.CompareSwap, Narrow: true, Compare: uint64(compare), Operand: uint64(swap), Old32: old})
}

func (m *Remote) atomic(offset int, a word.Op) *Request {
	w := m.c.w
	w.e.Lock()
	defer w.unlock()
	r := w.request()
	address, shift, err := m.key.Word(offset, a.Narrow)
	if a.Kind == 0 || a.Kind > word.CompareSwap {
		err = fmt.Errorf("msg: atomic operation %d, expected AtomicAdd to AtomicXor", a.Kind)
	}
	if err != nil {
		r.end(Info{}, err)
		return r
	}
	o := r.operation()
	x := w.accesses.Access(o, access.Atomic)
	a.Shift = shift
	x.Address, x.Keys, x.Atomic = address, m.key.Keys, a
	m.c.access(x)
	o.End(nil)
	w.e.Flush()
	return r
}
