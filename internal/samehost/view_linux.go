package samehost

import (
	"context"
	"fmt"
	"net/netip"
	"sync"

	"softrdma/internal/link/hostmem"
	"softrdma/internal/memory"
	"softrdma/internal/reason"
)

const (
	maxQuestions = 64 // unanswered questions of a channel
	align        = 64 // bytes: a view has the alignment of the region's addresses, whatever the peer says
)

// questions holds the questions that the peer has not answered yet, oldest first. It answers
// in order.
type questions struct {
	mu    sync.Mutex
	list  []*question
	ended bool
}

// A question asks for the segment of a region's address. The answer is valid when done is
// closed, unless the channel has ended.
type question struct {
	key    uint32
	addr   uint64
	done   chan struct{}
	id     uint32 // 0 if there is none
	offset uint64
}

// View maps n bytes of a region of a queue pair's peer for reading. It finds them by the
// region's R_Key and an address in it. ctx bounds the wait for the peer. The view stays valid
// when the peer deregisters the region or ends.
func (h *Host) View(ctx context.Context, peer netip.AddrPort, qpn, key uint32, addr uint64, n int) (*View, error) {
	if !h.hold() {
		return nil, closedError()
	}
	defer h.running.Done()
	h.mu.Lock()
	c := h.newest(h.placeOf(peer, qpn))
	h.mu.Unlock()
	switch {
	case c == nil:
		if err := h.Why(peer, qpn).Err(); err != nil {
			return nil, err
		}
		return nil, reason.Detail{Reason: reason.HostUnpublished, Expected: uint64(peer.Port())}.Err()
	case !c.same:
		return nil, reason.Detail{Reason: reason.HostUser, Expected: uint64(h.users.own), Found: uint64(c.process.uid)}.Err()
	}
	q, err := c.ask(key, addr)
	if err != nil {
		return nil, err
	}
	select {
	case <-q.done:
	case <-ctx.Done():
		return nil, fmt.Errorf("no answer of the peer: %w", context.Cause(ctx))
	}
	return c.view(q, n)
}

// newest returns the newest live channel to a peer, or nil. The caller holds mu.
func (h *Host) newest(peer place) *channel {
	list := h.channels[peer]
	for i := len(list) - 1; i >= 0; i-- {
		if !list[i].ended.Load() {
			return list[i]
		}
	}
	return nil
}

// ask asks the peer for the segment of a region's address.
func (c *channel) ask(key uint32, addr uint64) (*question, error) {
	v := &c.views
	v.mu.Lock()
	defer v.mu.Unlock()
	switch {
	case v.ended:
		return nil, closedError()
	case len(v.list) >= maxQuestions:
		return nil, tooMany(maxQuestions, len(v.list))
	}
	q := &question{key: key, addr: addr, done: make(chan struct{})}
	v.list = append(v.list, q)
	c.put(&message{kind: locate, key: key, at: addr}, nil)
	return q, nil
}

// view makes the view that answers a question.
func (c *channel) view(q *question, n int) (*View, error) {
	s := c.segments.use(q.id)
	if s == nil {
		return nil, unshared()
	}
	b := s.Bytes()
	if q.offset > uint64(len(b)) || uint64(n) > uint64(len(b))-q.offset || (q.offset^q.addr)%align != 0 {
		_ = s.drop()
		return nil, reason.Detail{Reason: reason.HostMessage, Expected: uint64(len(b)), Found: q.offset + uint64(n)}.Err()
	}
	return &View{bytes: b[q.offset:][:n:n], close: s.drop}, nil
}

// locate answers a question of the peer. It offers the segment first.
func (c *channel) locate(m *message) {
	reply := message{kind: located, key: m.key}
	if f := c.host.cfg.Locate; f != nil {
		if s, offset, ok := f(m.key, m.at); ok {
			c.Offer(s)
			reply.id, reply.at = s.ID, offset
			if _, _, ok := f(m.key, m.at); !ok { // it has ended meanwhile, perhaps before the offer
				c.Withdraw(s.ID)
				reply.id = 0
			}
		}
	}
	c.put(&reply, nil)
}

// located handles the answer to the oldest question.
func (c *channel) located(m *message) error {
	v := &c.views
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.list) == 0 || v.list[0].key != m.key {
		return unexpected(m)
	}
	q := v.list[0]
	v.list = v.list[1:]
	q.id, q.offset = m.id, m.at
	close(q.done)
	return nil
}

// end ends the unanswered questions: nothing is shared.
func (v *questions) end() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.ended = true
	for _, q := range v.list {
		close(q.done)
	}
	v.list = nil
}

// ViewOwn maps n bytes at an offset of a segment of this process again, for reading.
func ViewOwn(s *memory.Segment, offset uint64, n int) (*View, error) {
	if offset > uint64(len(s.Mem)) || uint64(n) > uint64(len(s.Mem))-offset {
		return nil, reason.BadArgument(uint64(len(s.Mem)), offset+uint64(n), "view of %d bytes at %d: the segment has %d", n, offset, len(s.Mem))
	}
	var m *hostmem.Memory
	err := unshared()
	s.Use(func(fd int) { m, err = hostmem.MapMemory(fd, len(s.Mem), false) })
	if err != nil {
		return nil, err
	}
	return &View{bytes: m.Bytes()[offset:][:n:n], close: m.Close}, nil
}
