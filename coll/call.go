package coll

import (
	"context"
	"errors"
	"fmt"

	"softrdma/msg"
)

// A call is an operation that a group executes. Methods after the first error do nothing, so
// algorithms need not check each step; result returns the error.
type call struct {
	g         *Group
	operation Operation
	algorithm Algorithm
	number    uint8
	word      uint64          // for boards: the number of the call in the group, which wraps, and what it is
	steps     uint64          // that this member has done in a mapped call
	context   context.Context // until the caller's ends or the group fails
	release   func()
	err       error

	running chan struct{} // has a token during a call
	sends   []sending
	posted  []*receive // that have not ended; the group's lock guards it
	spare   []*receive
	scratch [][]byte
}

type sending struct {
	r  *msg.Request
	to int
}

// A receive is a message to come.
type receive struct {
	r      *msg.Request
	from   int
	length int
}

// begin begins a call. If it returns nil, the caller does its part and calls result.
func (g *Group) begin(ctx context.Context, o Operation, a Algorithm) (*call, error) {
	c := &g.call
	g.mu.Lock()
	if c.running == nil {
		c.running = make(chan struct{}, 1)
	}
	err := g.err
	if err == nil {
		select {
		case c.running <- struct{}{}:
			g.calls++
			c.number = uint8(g.calls)
		default:
			err = ErrBusy
		}
	}
	g.mu.Unlock()
	if err != nil {
		return nil, fmt.Errorf("%v: %w", o, err)
	}
	c.operation, c.algorithm, c.err, c.steps = o, a, nil, 0
	c.word = g.calls&numberMask<<shiftWord | uint64(c.what())
	if m := g.mapping; m != nil {
		m.boards[g.rank].call.Store(c.word)
	}
	c.context, c.release = g.context, func() {}
	if ctx.Done() != nil {
		both, cancel := context.WithCancelCause(ctx)
		stop := context.AfterFunc(g.context, func() { cancel(context.Cause(g.context)) })
		c.context, c.release = both, func() { stop(); cancel(nil) }
	}
	return c, nil
}

// result ends the call and returns its error.
func (c *call) result() error {
	c.flush()
	g := c.g
	c.release()
	if c.err == nil {
		for _, b := range c.scratch {
			g.mesh.pool.give(b)
		}
	} else { // peers may read the scratch memory, so it is not used again
		c.settle()
		if len(c.sends) > 0 {
			g.mesh.unreceived.Store(true)
		}
	}
	clear(c.scratch)
	c.scratch, c.sends = c.scratch[:0], c.sends[:0]
	err := c.err
	if err != nil {
		g.fail(c.blame())
		err = fmt.Errorf("%v: %w", c.operation, g.Err()) // the first failure counts
	}
	g.mu.Lock()
	<-c.running
	closed := g.err == ErrClosed
	g.mu.Unlock()
	if closed { // during the call
		g.release()
		g.mesh.pool.unhold()
	}
	return err
}

// settle ends receives, so that no peer's bytes arrive after the call.
func (c *call) settle() {
	c.g.mu.Lock()
	posted := c.posted
	c.posted = nil
	c.g.mu.Unlock()
	for _, p := range posted {
		if !p.r.Cancel() {
			_, _ = p.r.Wait(context.Background()) // it ends when its bytes are read, or when its peer fails
		}
	}
}

// blame returns the error with the member that has failed.
func (c *call) blame() *MemberError {
	g := c.g
	if e := (*MemberError)(nil); errors.As(c.err, &e) {
		return e
	}
	return &MemberError{g.rank, c.err}
}

// stop ends the call with an error about a member.
func (c *call) stop(rank int, err error) {
	if c.err == nil {
		c.err = &MemberError{rank, err}
	}
}

// interrupted reports whether err is the end of the call's context, and ends the call then.
func (c *call) interrupted(err error) bool {
	if c.context.Err() == nil || !errors.Is(err, c.context.Err()) {
		return false
	}
	cause := context.Cause(c.context)
	switch {
	case c.err != nil:
	case errors.Is(cause, ErrMember), errors.Is(cause, ErrClosed):
		c.err = cause
	default:
		c.stop(c.g.rank, fmt.Errorf("%w: %w", ErrContext, cause))
	}
	return true
}

// ok reports whether the call continues. It ends the call if its context has ended.
func (c *call) ok() bool {
	if c.err == nil && c.context.Err() != nil {
		c.interrupted(c.context.Err())
	}
	return c.err == nil
}

// need ends the call with ErrLength unless n is the expected length.
func (c *call) need(what string, n, expected int) {
	if n != expected {
		c.stop(c.g.rank, fmt.Errorf("%w: %s has %d elements, expected %d", ErrLength, what, n, expected))
	}
}

func (c *call) what() uint16 { return uint16(c.operation)<<5 | uint16(c.algorithm) }

// send sends bytes to a member, which do not change until flush.
func (c *call) send(to int, b []byte) {
	if c.err != nil {
		return
	}
	m := c.g.mesh
	member := c.g.members[to]
	e, err := m.link(c.context, member)
	if err != nil {
		if !c.interrupted(err) {
			c.failed(to, err)
		}
		return
	}
	r := e.Send(m.tag(m.rank, c.g.id, c.number, c.what()), msg.Buffers{b}, nil)
	c.sends = append(c.sends, sending{r, to})
}

// failed ends the call because of messages with a member.
func (c *call) failed(rank int, err error) {
	if c.err == nil {
		c.err = c.g.lost(rank, err)
	}
}

// flush waits until the bytes of all sends may change.
func (c *call) flush() {
	for i := range c.sends {
		if c.err != nil {
			return // their requests are not used again
		}
		s := &c.sends[i]
		_, err := s.r.Wait(c.context)
		switch {
		case err == nil:
			s.r.Release()
		case !c.interrupted(err):
			c.failed(s.to, err)
		}
	}
	if c.err == nil {
		c.sends = c.sends[:0]
	}
}

// post begins to receive bytes of a member. Wait ends that.
func (c *call) post(from int, b []byte) *receive {
	if c.err != nil {
		return nil
	}
	g := c.g
	m := g.mesh
	var p *receive
	if n := len(c.spare); n > 0 {
		p, c.spare = c.spare[n-1], c.spare[:n-1]
	} else {
		p = &receive{}
	}
	member := g.members[from]
	p.from, p.length = from, len(b)
	p.r = m.w.Receive(msg.Buffers{b}, m.tag(member, g.id, c.number, 0), msg.All&^whatMask)
	g.mu.Lock()
	c.posted = append(c.posted, p)
	g.mu.Unlock()
	if m.links[member].endpoint.Load() == nil { // so that its failure is noticed
		if _, ended, _ := p.r.Poll(); ended {
			return p
		}
		c.reach(p, member)
	}
	if m.links[member].left.Load() {
		p.r.Cancel() // nothing comes any more
	}
	return p
}

// reach connects to a member, so that its failure is noticed. It does not wait for that when what is to be
// received is there: the member may have ended since. The group learns of that when the attempt ends.
func (c *call) reach(p *receive, member int) {
	g := c.g
	linked := make(chan error, 1)
	go func() {
		_, err := g.mesh.link(g.mesh.context, member)
		if linked <- err; err != nil {
			g.mesh.unreachable(member, err)
		}
	}()
	select {
	case err := <-linked:
		if _, ended, _ := p.r.Poll(); err != nil && !ended {
			c.failed(p.from, err)
		}
	case <-p.r.Done():
	case <-c.context.Done():
		c.interrupted(c.context.Err())
	}
}

// cancelFrom ends receives of a member that has left.
func (g *Group) cancelFrom(rank int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, p := range g.call.posted {
		if p.from == rank {
			p.r.Cancel()
		}
	}
}

// wait waits for a receive, and reports whether its bytes are there.
func (c *call) wait(p *receive) bool {
	if c.err != nil {
		return false
	}
	info, err := p.r.Wait(c.context)
	if c.interrupted(err) {
		return false // settle ends the receive
	}
	g := c.g
	g.mu.Lock()
	for i := range c.posted {
		if c.posted[i] == p {
			c.posted = append(c.posted[:i], c.posted[i+1:]...)
			break
		}
	}
	g.mu.Unlock()
	from, length := p.from, p.length
	p.r.Release()
	*p = receive{}
	c.spare = append(c.spare, p)
	switch what := uint16(info.Tag & whatMask); {
	case errors.Is(err, msg.ErrCanceled):
		c.stop(from, ErrLeft)
	case err != nil && !errors.Is(err, msg.ErrTruncated):
		c.failed(from, err)
	case what != c.what():
		c.stop(from, fmt.Errorf("%w: it calls %s, rank %d %s", ErrCall, describe(what), g.rank, describe(c.what())))
	case info.Length != length:
		c.stop(from, fmt.Errorf("%w: it sent %d bytes in %v, rank %d expected %d", ErrLength, info.Length, c.operation, g.rank, length))
	}
	return c.err == nil
}

// receive receives bytes of a member, and reports whether they are there.
func (c *call) receive(from int, b []byte) bool {
	p := c.post(from, b)
	return p != nil && c.wait(p)
}

// exchange sends to one member and receives from one. Afterwards both memories may be used.
func (c *call) exchange(to int, out []byte, from int, in []byte) bool {
	p := c.post(from, in)
	c.send(to, out)
	if p == nil || !c.wait(p) {
		return false
	}
	c.flush()
	return c.err == nil
}

// take returns n bytes for the rest of the call. After an error no other call gets them, but the
// memory may be nil.
func (c *call) take(n int) []byte {
	if c.err != nil {
		return nil
	}
	b, err := c.g.mesh.pool.take(n)
	if err != nil {
		c.stop(c.g.rank, fmt.Errorf("%w: no memory: %w", ErrGone, err))
		return nil
	}
	c.scratch = append(c.scratch, b)
	return b
}
