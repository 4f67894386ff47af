package msg

import (
	"context"
	"slices"
	"time"

	"softrdma/msg/internal/access"
	"softrdma/msg/internal/format"
	"softrdma/msg/internal/ring"
	"softrdma/rdmacm"
)

// ListensAt returns where the worker with an address listens.
func ListensAt(b []byte) (at string, udp uint16) {
	a, err := format.ParseAddress(b)
	if err != nil {
		panic(err)
	}
	return a.Rails[0].Listener.String(), a.Rails[0].UDP
}

// Refusal returns the error of a client whose request for the worker with an address was rejected
// with private data.
func Refusal(r *rdmacm.RejectedError, to, private []byte) error {
	a, err := format.ParseAddress(to)
	if err != nil {
		panic(err)
	}
	x := *r
	x.PrivateData = private
	return format.Refusal(&x, &a, 0)
}

// PackKey returns a key.
func PackKey(worker, address, length uint64, rkey uint32, r Rights) []byte {
	return (&format.Key{Rights: uint8(r), Worker: worker, Address: address, Length: length, Keys: []uint32{rkey}}).Bytes()
}

// Kept returns how many pieces of memory, and bytes, a worker keeps registered after requests.
func (w *Worker) Kept() (pieces, bytes int) {
	w.e.Lock()
	defer w.e.Unlock()
	return w.cache.Kept()
}

// KeptKey returns a key of kept memory, as a peer would forge it.
func (w *Worker) KeptKey(buf []byte) []byte {
	w.e.Lock()
	defer w.e.Unlock()
	kept, err := w.cache.Register(buf, true)
	if err != nil {
		panic(err)
	}
	defer kept.Release()
	m := kept.MR
	return PackKey(w.address.Worker, m.Addr(), uint64(m.Len()), m.RKey(), AllowAll)
}

// ExposedKey returns a key of the memory that a peer may read for a request.
func (r *Request) ExposedKey() []byte {
	r.worker.e.Lock()
	defer r.worker.e.Unlock()
	m := r.exposed[0]
	return PackKey(r.worker.address.Worker, m.Addr(), uint64(m.Len()), m.RKey(), AllowGet)
}

// Hold takes the free frames of an endpoint's send queue until the returned function is called.
func (e *Endpoint) Hold() (release func()) {
	c := e.c
	w := c.w
	w.e.Lock()
	defer w.unlock()
	give := c.Conn.Hold()
	return func() {
		w.e.Lock()
		defer w.unlock()
		give()
		w.e.Flush()
	}
}

// Control sends a frame of the rings' protocol that asks for nothing.
func (e *Endpoint) Control() {
	w := e.c.w
	w.e.Lock()
	defer w.unlock()
	e.c.Add(ring.Control{Kind: ring.Bell}.Bytes())
	w.e.Flush()
}

// HoldRail keeps a rail of all endpoints from reading and writing messages until the returned function is
// called.
func (w *Worker) HoldRail(i int) (release func()) {
	change := func(n int) {
		w.e.Lock()
		defer w.unlock()
		for _, g := range w.groups {
			m := g.members[i]
			m.parts -= n
			m.Mark()
		}
		w.e.Flush()
	}
	change(railParts)
	return func() { change(-railParts) }
}

// LimitRings bounds how many connections of a worker have rings until restore is called.
func LimitRings(n int) (restore func()) {
	before := maxRings
	maxRings = n
	return func() { maxRings = before }
}

// Ringed reports whether all endpoints of a worker send and receive frames through shared memory.
func (w *Worker) Ringed() bool {
	w.e.Lock()
	defer w.unlock()
	w.progress()
	return !slices.ContainsFunc(w.conns, func(c *connection) bool { return !c.rings.sending || !slices.Contains(w.rings, c) })
}

// Sending reports whether the worker's only endpoint sends through shared memory.
func (w *Worker) Sending() bool {
	w.e.Lock()
	defer w.e.Unlock()
	return w.conns[0].rings.sending
}

// SleepUntil sleeps once as Wait of a request does, for at most limit, without polling before. It reports
// whether something has woken the worker or the request has ended.
func (w *Worker) SleepUntil(r *Request, limit time.Duration) bool {
	select {
	case <-w.wake: // of before
	default:
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	w.sleep(ctx, r)
	return ctx.Err() == nil && r.ended.Load()
}

// Ended reports whether the request has ended, without progress.
func (r *Request) Ended() bool { return r.ended.Load() }

// RingMemory returns what the peer of the worker's only endpoint maps.
func (w *Worker) RingMemory() []byte {
	w.e.Lock()
	defer w.e.Unlock()
	return w.conns[0].rings.memory.Bytes()
}

// TakeOffer takes an offer of the peer's memory for a ring. It reports false if the peer's own has come.
func (e *Endpoint) TakeOffer() bool {
	c := e.c
	c.w.e.Lock()
	defer c.w.unlock()
	d := &c.rings
	if d.offered {
		return false
	}
	offer := ring.Control{Kind: ring.Offer, Address: d.region.Addr(), Key: d.region.RKey(), Len: d.region.Len()}
	if err := c.control(offer.Bytes()); err != nil {
		panic(err)
	}
	return true
}

// Take takes completions as Progress does, and returns how many frames of an endpoint they have released,
// which are posted then.
func (w *Worker) Take(e *Endpoint) int {
	w.e.Lock()
	defer w.unlock()
	before := e.c.Frames()
	w.e.Progress()
	return int(e.c.Frames() - before)
}

// SendAndFlush begins to send bytes and to flush, without Worker.flush. It returns the requests, and
// how many frames were not posted before the flush was.
func (e *Endpoint) SendAndFlush(tag uint64, data []byte) (send, flush *Request, behind int) {
	c := e.c
	w := c.w
	w.e.Lock()
	defer w.unlock()
	send, flush = w.request(), w.request()
	send.send.Data, send.send.Length = send.pieces(Buffers{data})
	send.send.Tag, send.send.Context = tag, send
	w.machine.Send(c.peer, &send.send)
	o := flush.operation()
	c.pipeline.Add(w.accesses.Access(o, access.Flush))
	o.End(nil)
	behind = c.Unposted()
	w.e.Flush()
	return send, flush, behind
}
