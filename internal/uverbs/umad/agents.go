//go:build linux

package umad

import (
	"container/heap"
	"crypto/rand"
	"encoding/binary"
	"slices"
	"sync"
	"syscall"
	"time"

	"softrdma/internal/reason"
	"softrdma/internal/uverbs/client"
	"softrdma/internal/wire/mad"
)

const never = time.Duration(1<<63 - 1)

// agents are the agents of a port, of all files. It reads no clock.
type agents struct {
	port   Port
	notify func() // called when deadline may be earlier; may not block

	mu       sync.Mutex // never held while the port sends
	methods  map[method]*agent
	byTID    map[uint32]*agent
	lastTID  uint32 // begins at random: peers still repeat responses to the process before at this port
	requests requests
	inbound  map[*inbound]struct{}
	outbound map[*outbound]struct{}
	complete []*inbound // transfers whose last ACK has not left
}

// A method is a method of a version of a management class.
type method struct {
	class, version, method uint8
	oui                    [3]byte // of a vendor's class
}

// An agent is a registration of a file.
type agent struct {
	file     *file
	id       uint32 // in the file
	qpn      uint32
	tid      uint32 // the high half of its transaction IDs
	rmpp     bool   // leaves multi-packet transfers to the port
	methods  []method
	requests map[transaction]*request // those that a response ends
	waiting  map[*request]struct{}    // all that wait
	inbound  map[transferKey]*inbound
	outbound map[transferKey]*outbound
}

// A transaction identifies a request of an agent.
type transaction struct {
	tid   uint64
	class uint8
}

// connectionManager has the method of its messages, whose datagrams ports keep.
var connectionManager agent

func newAgents(p Port, notify func()) *agents {
	var start [4]byte
	rand.Read(start[:])
	a := &agents{
		port: p, notify: notify, methods: make(map[method]*agent), byTID: make(map[uint32]*agent), lastTID: binary.NativeEndian.Uint32(start[:]) % maxTID,
		inbound: make(map[*inbound]struct{}), outbound: make(map[*outbound]struct{}),
	}
	a.methods[method{class: mad.ClassCM, version: mad.CMClassVersion, method: mad.MethodSend}] = &connectionManager
	return a
}

// The highest number of a management class and the highest version that agents have, as in
// Linux, and how many transaction ID halves there are.
const (
	maxClass   = classVendorLast
	maxVersion = 0x82
	maxTID     = 1<<24 - 1
)

// A registration is what a program asks for.
type registration struct {
	qpn            uint32
	class, version uint8 // class 0: only for responses to its own requests
	oui            [3]byte
	transfers      uint8 // version of RMPP
	methods        func(m uint8) bool
}

// check checks a registration in the order of Linux (ib_register_mad_agent). Linux also refuses queue
// pair 0 of a RoCE port, and thereby every program of libibmad, which registers for all classes at the
// start. Here it may register, so that perfquery reads the counters, but not send or receive there.
func (r *registration) check(p Port) error {
	switch {
	case r.qpn == 0 && !p.SMI() && r.receives():
		return client.Refuse(syscall.EPROTONOSUPPORT, reason.MADQueuePair, 1, 0)
	case r.transfers > 1, r.transfers != 0 && r.class != 0 && !transfers(r.class):
		return syscall.EINVAL
	case r.class == 0:
	case r.version > maxVersion, r.class > maxClass && r.class != mad.ClassDirected, vendor(r.class) && r.oui == [3]byte{},
		(r.qpn == 0) != subnet(r.class):
		return syscall.EINVAL
	}
	return nil
}

// receives reports whether the registration is for requests of others.
func (r *registration) receives() bool {
	for m := uint8(0); m < mad.ResponseBit && r.class != 0; m++ {
		if r.methods(m) {
			return true
		}
	}
	return false
}

// register makes an agent of a file.
func (a *agents) register(f *file, id uint32, r *registration) (*agent, error) {
	if err := r.check(a.port); err != nil {
		return nil, err
	}
	g := &agent{
		file: f, id: id, qpn: r.qpn, rmpp: r.transfers != 0, requests: make(map[transaction]*request), waiting: make(map[*request]struct{}),
		inbound: make(map[transferKey]*inbound), outbound: make(map[transferKey]*outbound),
	}
	k := method{class: r.class, version: r.version}
	if vendor(r.class) {
		k.oui = r.oui
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for m := uint8(0); m < mad.ResponseBit && r.class != 0; m++ {
		if k.method = m; !r.methods(m) {
			continue
		}
		if a.methods[k] != nil {
			return nil, client.Refuse(syscall.EINVAL, reason.MADAgentTaken, uint64(r.class), uint64(m))
		}
		g.methods = append(g.methods, k)
	}
	for _, k := range g.methods {
		a.methods[k] = g
	}
	for g.tid == 0 || a.byTID[g.tid] != nil {
		a.lastTID = a.lastTID%maxTID + 1
		g.tid = a.lastTID
	}
	a.byTID[g.tid] = g
	return g, nil
}

// unregister ends an agent. The program hears nothing more of its requests.
func (a *agents) unregister(g *agent) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, k := range g.methods {
		delete(a.methods, k)
	}
	delete(a.byTID, g.tid)
	for r := range g.waiting {
		a.end(r)
	}
	for _, in := range g.inbound {
		a.forgetInbound(in)
	}
}

// receive gives a datagram to the agent that it is for, as a Handler does.
func (a *agents) receive(now time.Duration, m *MAD) (taken bool, dropped reason.Detail) {
	var h mad.Header
	h.Parse(&m.Data)
	if subnet(h.Class) != (m.QPN == 0) {
		return false, dropped
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if response(&h) {
		return a.respond(now, m, &h)
	}
	k := method{class: h.Class, version: h.ClassVersion, method: h.Method}
	if vendor(h.Class) {
		k.oui = [3]byte(m.Data[vendorOUI:])
	}
	g := a.methods[k]
	if g == nil || g == &connectionManager {
		return false, dropped
	}
	if g.rmpp && segment(h.Class, &m.Data) {
		return true, a.segment(now, g, m, &h)
	}
	return true, g.file.arrived(g, m, slices.Clone(m.Data[:]))
}

// respond gives a response to the agent whose request it answers.
func (a *agents) respond(now time.Duration, m *MAD, h *mad.Header) (taken bool, dropped reason.Detail) {
	g := a.byTID[uint32(h.TID>>32)]
	if g == nil || g.qpn != m.QPN {
		return false, dropped
	}
	if g.rmpp && segment(h.Class, &m.Data) {
		return true, a.segment(now, g, m, h)
	}
	r := g.requests[transaction{h.TID, h.Class}]
	switch {
	case r != nil && r.mad.Peer.Global == m.Peer.Global:
		a.end(r)
	case !segment(h.Class, &m.Data): // programs that execute transfers themselves get all segments
		return true, reason.Detail{Reason: reason.MADNoRequest, Expected: uint64(h.Class), Found: h.TID}
	}
	return true, g.file.arrived(g, m, slices.Clone(m.Data[:]))
}

// deadline is when expire is to be called next.
func (a *agents) deadline() time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	due := a.transferDeadline()
	if len(a.requests) > 0 {
		due = min(due, a.requests[0].due)
	}
	return due
}

// expire sends what transfers have to send, sends requests again whose response is late,
// and reports time-outs to programs.
func (a *agents) expire(now time.Duration) {
	a.mu.Lock()
	again, complete := a.transfer(now), a.complete
	a.complete = nil
	for len(a.requests) > 0 && a.requests[0].due <= now {
		r := a.requests[0]
		if r.retries == 0 {
			a.end(r)
			r.agent.file.timedOut(r)
			continue
		}
		r.retries--
		r.due = now + r.timeout
		heap.Fix(&a.requests, 0)
		again = append(again, r.mad)
	}
	a.mu.Unlock()
	for i := range again {
		_ = a.port.Send(&again[i]) // counts as lost
	}
	if len(complete) > 0 {
		a.hand(complete)
	}
}
