package rpc

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync/atomic"
	"time"

	"softrdma/internal/carrier"
	"softrdma/internal/session"
	"softrdma/internal/waiting"
	"softrdma/rdmacm"
	"softrdma/verbs"
)

// A port is a server's engine on one device. One goroutine leads: it receives, runs short handlers,
// and sleeps while nothing happens. If a handler keeps the leader too long, guard makes another one.
type port struct {
	waiting.Group
	e       *carrier.Engine
	srv     *Server
	context context.Context
	stop    context.CancelFunc
	watch   chan struct{} // wakes guard
	jobs    chan *task    // to workers that are idle

	work       waiting.Waiter
	ready      []*task // from first
	first      int
	generation int // of the leader
	sessions   map[session.ID]*served
	methods    []*Procedure
	workers    int     // idle ones
	leaving    *string // as Server.leaving
	closed     bool

	beat     atomic.Uint64 // odd while the leader is in a handler
	guarding atomic.Bool
}

func newPort(srv *Server, dev *verbs.Device) (*port, error) {
	e, err := carrier.NewEngine(dev, nil)
	if err != nil {
		return nil, err
	}
	p := &port{Group: waiting.New(e), e: e, srv: srv, leaving: srv.leaving, watch: make(chan struct{}, 1), jobs: make(chan *task), sessions: map[session.ID]*served{}}
	p.context, p.stop = context.WithCancel(srv.context)
	e.Ending.Add(2)
	go p.lead(0)
	go p.guard()
	return p, nil
}

// adopt takes the server's methods.
func (p *port) adopt(methods []*Procedure) {
	p.e.Lock()
	defer p.e.Unlock()
	p.methods = methods
}

// enqueue makes a task ready to run. The caller holds the lock.
func (p *port) enqueue(t *task) {
	p.ready = append(p.ready, t)
	p.Signal(&p.work)
}

// lead receives and runs what has arrived, until the port is closed or there is another leader.
func (p *port) lead(generation int) {
	p.e.Lock()
	defer p.e.Unlock()
	for p.generation == generation && !p.closed {
		if len(p.ready) == 0 {
			p.work.Ready = false
			p.Group.Lead(p.context, &p.work)
			continue
		}
		t := p.ready[p.first]
		if p.first++; p.first == len(p.ready) {
			p.ready, p.first = p.ready[:0], 0
		}
		switch {
		case !t.begin():
			p.e.Flush()
		case t.proc.apart():
			p.hand(t)
		case !p.runHere(t, generation):
			return // not the leader any more
		}
	}
	p.e.Ending.Done()
}

// runHere runs a task on the leader's goroutine, and reports whether that is the leader still. The
// caller holds the lock, before and after. A leader in a handler does not use the engine, so close
// does not wait for it.
func (p *port) runHere(t *task, generation int) bool {
	p.beat.Add(1)
	if p.guarding.CompareAndSwap(false, true) {
		select {
		case p.watch <- struct{}{}:
		default: // guard has not taken the last one yet
		}
	}
	p.e.Ending.Done()
	p.e.Unlock()
	t.run()
	p.e.Lock()
	t.finish()
	p.e.Flush()
	if p.generation != generation || p.closed {
		return false
	}
	p.e.Ending.Add(1)
	p.beat.Add(1)
	return true
}

// hand gives a task to a goroutine of its own.
func (p *port) hand(t *task) {
	select {
	case p.jobs <- t:
	default:
		go p.serve(t)
	}
}

// maxIdle bounds the goroutines that wait for tasks.
const maxIdle = 64

// serve runs tasks.
func (p *port) serve(t *task) {
	for {
		t.run()
		p.e.Lock()
		t.finish()
		p.e.Flush()
		if p.workers >= maxIdle || p.closed {
			p.e.Unlock()
			return
		}
		p.workers++
		p.e.Unlock()
		select {
		case t = <-p.jobs:
		case <-p.context.Done():
			t = nil
		}
		p.e.Lock()
		p.workers--
		p.e.Unlock()
		if t == nil {
			return
		}
	}
}

// handlerLimit is how long a handler may keep the leader. Guard looks after this time, so it may become
// twice as long.
const handlerLimit = 2 * time.Millisecond

// guard makes a new leader when a handler keeps the leader too long. It sleeps when no handler has
// run for a while.
func (p *port) guard() {
	defer p.e.Ending.Done()
	for {
		select {
		case <-p.watch:
		case <-p.context.Done():
			return
		}
		for last := p.beat.Load(); ; {
			if waiting.Sleep(p.context, handlerLimit) != nil {
				return
			}
			now := p.beat.Load()
			if now != last {
				last = now
				continue
			}
			p.guarding.Store(false)
			if now%2 == 1 && !p.replace(now) {
				p.guarding.Store(true) // it is another handler by now
				continue
			}
			break
		}
	}
}

// replace makes a new leader if the present one is in its handler still.
func (p *port) replace(beat uint64) bool {
	p.e.Lock()
	defer p.e.Unlock()
	if p.beat.Load() != beat || p.closed {
		return false
	}
	p.beat.Add(1) // the goroutine in the handler is not the leader any more
	p.generation++
	p.e.Ending.Add(1)
	go p.lead(p.generation)
	return true
}

// admit makes a connection of a request.
func (p *port) admit(r *rdmacm.Request, h *session.Hello) (session.Refusal, error) {
	on, err := p.e.On(r.Device())
	if err != nil {
		return session.Refusal{Cause: session.CauseFull}, err
	}
	p.e.Lock()
	p.Wake() // the leader may sleep on the first rail alone
	p.e.Unlock()
	s, refusal, err := p.session(on, h, r.RemoteAddr())
	if err != nil {
		return refusal, err
	}
	cfg := &p.srv.cfg
	setup := carrier.ConnConfig{Owner: s, Domain: s.domain, Rail: on, Receives: cfg.Calls + carrier.SpareReceives, Frame: cfg.Inline + session.HeaderLen,
		Slots: controlFrames, Size: controlLen, Queue: carrier.FarQueue, Out: &s.out, OutSlots: len(s.tasks), Timeout: cfg.PeerTimeout}
	c, err := p.e.NewConn(setup, r.CreateQP)
	if err != nil {
		c.Discard()
		s.left()
		return session.Refusal{Cause: session.CauseFull}, err
	}
	reply := session.Hello{ID: p.srv.process, Frame: uint32(setup.Frame), Receives: uint16(setup.Receives), Slots: uint16(len(s.tasks)), Body: uint64(cfg.MaxBody), Bytes: uint64(cfg.Bytes)}
	cm, err := r.Accept(p.context, rdmacm.ConnParam{PrivateData: reply.Reply()})
	if err != nil {
		c.Discard()
		s.left()
		return session.Refusal{Cause: session.CauseProtocol}, err
	}
	s.join(c, cm, setup.Receives, int(h.Receives))
	return session.Refusal{}, nil
}

// session returns the session for a connection, which counts as one of its connections.
func (p *port) session(r *carrier.Rail, h *session.Hello, peer netip.AddrPort) (*served, session.Refusal, error) {
	p.e.Lock()
	s, to := p.sessions[h.ID], p.leaving
	switch {
	case s == nil && h.Resume:
		p.e.Unlock()
		return nil, session.Refusal{Cause: session.CauseUnknown}, errUnknownSession
	case s == nil && to != nil && *to != "":
		p.e.Unlock()
		return nil, session.Refusal{Cause: session.CauseMoved, Address: *to}, &moved{*to}
	case s == nil && to != nil:
		p.e.Unlock()
		return nil, session.Refusal{Cause: session.CauseDraining}, &Error{Code: Draining}
	case s != nil && (s.joining >= p.srv.cfg.Connections || s.frame != frameOf(p.srv, h)):
		p.e.Unlock()
		return nil, session.Refusal{Cause: session.CauseFull}, ErrSessions
	case s != nil:
		s.enter()
		p.e.Unlock()
		return s, session.Refusal{}, nil
	}
	p.e.Unlock()
	if err := p.srv.enter(); err != nil {
		return nil, session.Refusal{Cause: session.CauseFull}, err
	}
	s, err := p.newServed(r, h, peer)
	if err != nil {
		p.srv.exit()
		return nil, session.Refusal{Cause: session.CauseFull}, err
	}
	p.e.Lock()
	defer p.e.Unlock()
	if p.closed || p.sessions[h.ID] != nil || p.leaving != nil { // in the meantime
		s.free()
		go p.srv.exit()
		return nil, session.Refusal{Cause: session.CauseDraining}, &Error{Code: Draining}
	}
	p.sessions[h.ID] = s
	s.enter()
	return s, session.Refusal{}, nil
}

// errUnknownSession is reported to Config.Refused.
var errUnknownSession = fmt.Errorf("rpc: a client wants to go on with a session that the server does not have")

// leave asks the clients to make new calls elsewhere.
func (p *port) leave(address string) {
	p.e.Lock()
	defer p.e.Unlock()
	p.leaving = &address
	for _, s := range p.sessions {
		s.leave(address)
	}
	p.e.Flush()
}

// close ends all sessions.
func (p *port) close() {
	p.e.Lock()
	p.closed = true
	for _, s := range p.sessions {
		s.end(ErrClosed)
	}
	p.stop()
	p.Wake()
	p.e.Unlock()
	_ = p.e.Close() // nothing of the server is left
}

// report tells the program of a client that broke the protocol.
func (p *port) report(s *served, err error) {
	if errors.Is(err, ErrProtocol) && p.srv.cfg.Refused != nil {
		p.e.Ending.Add(1)
		go func() {
			defer p.e.Ending.Done()
			p.srv.refused(s.peer, err)
		}()
	}
}
