package msg

import (
	"fmt"

	"softrdma/msg/internal/format"
	"softrdma/msg/internal/word"
	"softrdma/verbs"
)

// Remote is a peer's region, seen from an endpoint. The peer's program takes no part in accesses.
//
// Accesses of one endpoint are carried out in the order in which they began, with these exceptions:
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

// Len returns the region's length in bytes.
func (m *Remote) Len() int { return int(m.key.Length) }

// Rights returns what the key allows.
func (m *Remote) Rights() Rights { return Rights(m.key.Rights) }

// Put writes data, of at most verbs.MaxMessage bytes, to the region at offset. The request ends when
// the program may change data again; the bytes may not be in the region then, see Flush. If the
// access is impossible the request ends with an error that matches ErrRights, ErrBounds or
// ErrTooLong. If the peer fails, it ends with an error that matches ErrPeer.
func (m *Remote) Put(offset int, data []byte) *Request {
	return m.transfer(accessPut, AllowPut, offset, data)
}

// Get reads the bytes of the region at offset into buf, of at most verbs.MaxMessage bytes. The
// request ends when they are there. Its errors are those of Put.
func (m *Remote) Get(offset int, buf []byte) *Request {
	return m.transfer(accessGet, AllowGet, offset, buf)
}

func (m *Remote) transfer(kind accessKind, right Rights, offset int, data []byte) *Request {
	w := m.c.w
	w.mu.Lock()
	defer w.unlock()
	r := w.request()
	if err := m.check(right, offset, len(data)); err != nil {
		r.end(Info{}, err)
		return r
	}
	r.info.Length = len(data)
	m.piece(r, kind, offset, data)
	w.flush()
	return r
}

// PutList is like Put for several pieces, which come one after the other in the region. The limit
// is for each piece.
func (m *Remote) PutList(offset int, list [][]byte) *Request {
	return m.transferList(accessPut, AllowPut, offset, list)
}

// GetList is like Get for several pieces. The limit is for each piece.
func (m *Remote) GetList(offset int, list [][]byte) *Request {
	return m.transferList(accessGet, AllowGet, offset, list)
}

func (m *Remote) transferList(kind accessKind, right Rights, offset int, list [][]byte) *Request {
	w := m.c.w
	w.mu.Lock()
	defer w.unlock()
	r := w.request()
	at := offset
	for _, b := range list {
		if err := m.check(right, at, len(b)); err != nil {
			r.end(Info{}, err)
			return r
		}
		at += len(b)
	}
	if err := m.check(right, offset, 0); err != nil {
		r.end(Info{}, err)
		return r
	}
	r.info.Length = at - offset
	r.parts++ // until all pieces have begun
	for _, b := range list {
		m.piece(r, kind, offset, b)
		offset += len(b)
	}
	r.endPart(nil)
	w.flush()
	return r
}

// piece begins the access of one piece of a request.
func (m *Remote) piece(r *Request, kind accessKind, offset int, data []byte) {
	x := m.c.w.access(r, kind)
	x.address, x.keys, x.data = m.key.Address+uint64(offset), m.key.Keys, data
	if len(data) == 0 && m.c.err == nil {
		m.c.pipeline.end(x, nil)
		return
	}
	m.c.access(x)
}

// check returns why an access of n bytes is impossible.
func (m *Remote) check(right Rights, offset, n int) error {
	switch {
	case m.Rights()&right == 0:
		return fmt.Errorf("%w: it has rights %#x, the access needs %#x", ErrRights, m.key.Rights, uint8(right))
	case offset < 0 || uint64(offset) > m.key.Length || uint64(n) > m.key.Length-uint64(offset):
		return fmt.Errorf("%w: %d bytes at %d, the region has %d", ErrBounds, n, offset, m.key.Length)
	case n > verbs.MaxMessage:
		return fmt.Errorf("%w: %d bytes, expected at most %d", ErrTooLong, n, verbs.MaxMessage)
	}
	return nil
}

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
	w.mu.Lock()
	defer w.unlock()
	r := w.request()
	address, err := m.place(offset, &a)
	if err != nil {
		r.end(Info{}, err)
		return r
	}
	x := w.access(r, accessAtomic)
	x.address, x.keys, x.atomic = address, m.key.Keys, a
	m.c.access(x)
	w.flush()
	return r
}

// place returns the address of the 64-bit word that an atomic operation is carried out on.
func (m *Remote) place(offset int, a *word.Op) (uint64, error) {
	n := 8
	if a.Narrow {
		n = 4
	}
	r := &m.key
	if a.Kind == 0 || a.Kind > word.CompareSwap {
		return 0, fmt.Errorf("msg: atomic operation %d, expected AtomicAdd to AtomicXor", a.Kind)
	}
	if err := m.check(AllowAtomic, offset, n); err != nil {
		return 0, err
	}
	address := r.Address + uint64(offset)
	if address%uint64(n) != 0 {
		return 0, fmt.Errorf("%w: %d bits at address %#x", ErrAlignment, 8*n, address)
	}
	base := address &^ 7
	if base < r.Address || base+8 > r.Address+r.Length {
		return 0, fmt.Errorf("%w: the aligned 64 bits around offset %d", ErrBounds, offset)
	}
	if a.Narrow && (address != base) != r.BigEndian {
		a.Shift = 32
	}
	return base, nil
}
