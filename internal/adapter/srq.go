package adapter

import (
	"fmt"
	"sync"
	"sync/atomic"

	"softrdma/internal/machine"
	"softrdma/internal/object"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
	"softrdma/internal/sanitize"
)

// take copies the oldest request of a ring, which belongs to owner, and frees its slot. The receive is used
// for a message, or flushed.
func take(ring *queue.RecvRing, r *machine.Receive, s *sanitize.Sanitizer, owner any, used bool) bool {
	if ring.Len() == 0 {
		return false
	}
	i := ring.Consumer()
	s.Taking(owner, i, used)
	w := ring.At(i)
	r.WRID, r.Length = w.WRID, 0
	r.SGEs = append(r.SGEs[:0], ring.SGEs(i)...)
	for _, s := range r.SGEs {
		r.Length += uint64(s.Length)
	}
	ring.Release(i + 1)
	return true
}

// recvQueue is the private receive queue of a queue pair.
type recvQueue struct{ q *QP }

func (r recvQueue) Take(to *machine.Receive) bool {
	q := r.q
	return take(q.Recv, to, q.sanitizer, q, q.Attr.State != qp.Err && q.Attr.State != qp.Reset)
}

func (r recvQueue) Len() int   { return r.q.Recv.Len() }
func (recvQueue) Shared() bool { return false }

// An SRQ is a shared receive queue. The keys of its requests belong to its own protection
// domain (PD.newQP, machine.Port.RecvPD). Its queue pairs do not flush it; each one reports
// when it takes no more of its requests (machine.Completions.LastWQE).
type SRQ struct {
	pd   *PD
	uses object.Uses // queue pairs

	mu    sync.Mutex // consumers, resize
	ring  atomic.Pointer[queue.RecvRing]
	limit int // armed limit, 0 if there is none

	Number uint32 // of an XRC shared receive queue, 24 bits; otherwise 0
	xrcd   *XRCD  // its domain
	cq     *CQ    // where its receives complete

	Owner any // the driver's own object
}

// CreateSRQ makes a shared receive queue for depth requests of at most maxSGE entries.
func (p *PD) CreateSRQ(depth, maxSGE int) (*SRQ, error) {
	return p.CreateSRQOn(queue.NewRecvRing(depth, maxSGE))
}

// CreateSRQOn is CreateSRQ with a ring of the caller's, in memory that another process posts to.
func (p *PD) CreateSRQOn(ring *queue.RecvRing) (*SRQ, error) {
	if err := p.add(&p.dev.counts.SRQ); err != nil {
		return nil, err
	}
	s := &SRQ{pd: p}
	s.ring.Store(ring)
	p.dev.mu.Lock()
	p.dev.inventory.srqs.add(s)
	p.dev.mu.Unlock()
	p.dev.cfg.Sanitizer.CreatedSRQ(s, sanitize.Receives{PD: p.ID, Ring: s.Ring})
	return s, nil
}

// Destroy destroys the queue. It is refused while queue pairs use it.
func (s *SRQ) Destroy() error {
	if did, err := s.uses.End("shared receive queue"); !did {
		return err
	}
	if s.xrcd != nil {
		s.withdraw()
	}
	// The stream of a queue pair that was destroyed before may still end in order.
	s.mu.Lock()
	s.ring.Load().Detach()
	s.mu.Unlock()
	s.pd.dev.mu.Lock()
	delete(s.pd.dev.inventory.srqs.all, s)
	s.pd.dev.mu.Unlock()
	s.pd.dev.cfg.Sanitizer.Destroyed(s)
	s.pd.dev.dropEvents(s)
	s.pd.remove(&s.pd.dev.counts.SRQ)
	return nil
}

// Gone returns ErrClosed or ErrDestroyed once there is no queue any more.
func (s *SRQ) Gone() error {
	if s.uses.Gone() {
		return fmt.Errorf("shared receive queue: %w", ErrDestroyed)
	}
	select {
	case <-s.pd.dev.done:
		return ErrClosed
	default:
		return nil
	}
}

// Ring returns the present ring, for the producer.
func (s *SRQ) Ring() *queue.RecvRing { return s.ring.Load() }

// SetLimit arms the limit event: it is raised once when fewer than limit
// requests are left; 0 disarms it (IBTA 10.2.9).
func (s *SRQ) SetLimit(limit int) error {
	if err := s.Gone(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if depth := s.ring.Load().Depth(); limit < 0 || limit > depth {
		return fmt.Errorf("SRQ limit: expected 0 to %d, found %d", depth, limit)
	}
	s.limit = limit
	s.checkLimit()
	return nil
}

// StartLimit arms the limit of a new queue. It raises no event although the queue is
// empty: the queue has not been filled yet.
func (s *SRQ) StartLimit(limit int) {
	s.mu.Lock()
	s.limit = limit
	s.mu.Unlock()
}

// Limit returns the armed limit.
func (s *SRQ) Limit() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.limit
}

// Resize gives the queue another depth and keeps what is posted. The caller
// keeps producers away meanwhile.
func (s *SRQ) Resize(depth int) error {
	return s.ResizeOn(depth, queue.NewRecvRing(depth, s.Ring().MaxSGE()))
}

// ResizeOn is Resize to a ring of the caller's, which is empty.
func (s *SRQ) ResizeOn(depth int, r *queue.RecvRing) error {
	if err := s.Gone(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.ring.Load()
	if n := old.Len(); n > depth || depth < s.limit {
		return fmt.Errorf("SRQ cannot shrink to %d: %d receives are posted and the limit is %d", depth, n, s.limit)
	}
	w := r.Producer()
	for i, end := old.Consumer(), old.Producer(); i != end; i = old.Next(i) {
		*r.At(w) = *old.At(i)
		copy(r.SGERoom(w), old.SGEs(i))
		w = r.Next(w)
	}
	r.Publish(w)
	s.ring.Store(r)
	s.pd.dev.cfg.Sanitizer.Emptied(s)
	return nil
}

// Take implements machine.ReceiveQueue.
func (s *SRQ) Take(r *machine.Receive) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	ok := take(s.ring.Load(), r, s.pd.dev.cfg.Sanitizer, s, true)
	if ok {
		s.checkLimit()
	}
	return ok
}

func (s *SRQ) checkLimit() {
	if n := s.ring.Load().Len(); s.limit > 0 && n < s.limit {
		s.pd.dev.Raise(machine.EventSRQLimitReached, s, reason.Detail{Expected: uint64(s.limit), Found: uint64(n)})
		s.limit = 0
	}
}

// Len implements machine.ReceiveQueue.
func (s *SRQ) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ring.Load().Len()
}

// Shared implements machine.ReceiveQueue.
func (s *SRQ) Shared() bool { return true }
