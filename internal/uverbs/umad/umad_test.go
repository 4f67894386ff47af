//go:build linux

package umad

import (
	"encoding/binary"
	"errors"
	"slices"
	"syscall"
	"testing"
	"time"

	"softrdma/internal/reason"
	"softrdma/internal/uverbs/client"
	"softrdma/internal/wire/mad"
	"softrdma/internal/wire/uapi"
)

// A fakePort records what is sent, and delivers nothing by itself.
type fakePort struct {
	smi    bool
	sent   []MAD
	broken error
	sm     bool
	onSend func() // nil for nothing
}

func (p *fakePort) Device() string      { return "fake0" }
func (p *fakePort) Number() int         { return 2 }
func (p *fakePort) SMI() bool           { return p.smi }
func (p *fakePort) Handle(Handler)      {}
func (p *fakePort) SetSM(on bool) error { p.sm = on; return p.broken }
func (p *fakePort) Send(m *MAD) error {
	if p.onSend != nil {
		p.onSend()
	}
	if p.broken == nil {
		p.sent = append(p.sent, *m)
	}
	return p.broken
}

// A rig is a port with open files, at a time that the test sets.
type rig struct {
	t    *testing.T
	port *fakePort
	all  *agents
	now  time.Duration
}

func newRig(t *testing.T, smi bool) *rig {
	r := &rig{t: t, port: &fakePort{smi: smi}}
	r.all = newAgents(r.port, func() {})
	return r
}

// A program is an open file of a rig.
type program struct {
	*file
	rig      *rig
	readable bool
}

func (r *rig) open() *program {
	p := &program{rig: r}
	p.file = newFile(r.all, &client.NewBudget(0).NewAccount().Memory, p)
	p.pkeys = true
	return p
}

// Try implements socket: this program asks for each packet.
func (p *program) Try([]byte) bool { return false }

// Put implements socket.
func (p *program) Put([]byte) {
	if p.readable {
		p.rig.t.Error("readable twice")
	}
	p.readable = true
}

// remove removes the packet for which the program has asked.
func (p *program) remove() {
	p.readable = false
	p.file.remove()
}

const testClass = 0x33

var testOUI = [3]byte{1, 2, 3}

// vendorClass registers for methods of a vendor's class.
func vendorClass(methods ...uint8) *registration {
	return &registration{qpn: 1, class: testClass, version: 1, oui: testOUI, methods: func(m uint8) bool { return slices.Contains(methods, m) }}
}

// agent registers an agent, which must succeed.
func (p *program) newAgent(r *registration) uint32 {
	p.rig.t.Helper()
	id, err := p.register(r)
	if err != nil {
		p.rig.t.Fatal(err)
	}
	return id
}

// written returns what a program writes: a header and a datagram to a GID.
func written(id uint32, method uint8, tid uint64, timeout, retries uint32) []byte {
	h := uapi.MADHeader{ID: id, TimeoutMS: timeout, Retries: retries, QPN: [4]byte{0, 0, 0, 1}, GRHPresent: 1, GID: [16]byte{15: 9}}
	var b [mad.Len]byte
	(&mad.Header{BaseVersion: 1, Class: testClass, ClassVersion: 1, Method: method, TID: tid}).Put(&b)
	copy(b[vendorOUI:], testOUI[:])
	return append(uapi.Bytes(&h), b[:]...)
}

// write sends, which must give an error number.
func (p *program) write(b []byte, want error) {
	p.rig.t.Helper()
	if err := p.send(p.rig.now, b); !errors.Is(err, want) {
		p.rig.t.Fatalf("error %v, expected %v", err, want)
	}
}

// read reads the next packet.
func (p *program) read() (h uapi.MADHeader, data []byte) {
	p.rig.t.Helper()
	if !p.readable {
		p.rig.t.Fatal("not readable")
	}
	b, err := p.next(4096)
	if err != nil {
		p.rig.t.Fatal(err)
	}
	p.remove()
	h, _ = uapi.Parse[uapi.MADHeader](b)
	return h, b[len(uapi.Bytes(&h)):]
}

// answer makes a response to the request that was sent last.
func (r *rig) answer() *MAD {
	m := r.port.sent[len(r.port.sent)-1]
	m.Data[3] |= mad.ResponseBit
	return &m
}

// arrive delivers a datagram, and checks what becomes of it.
func (r *rig) arrive(m *MAD, taken bool, dropped reason.Reason) {
	r.t.Helper()
	if ok, d := r.all.receive(r.now, m); ok != taken || d.Reason != dropped {
		r.t.Fatalf("taken %t, dropped as %v, expected %t, %v", ok, d.Reason, taken, dropped)
	}
}

func (r *rig) advance(d time.Duration) {
	r.now += d
	r.all.expire(r.now)
}

func TestResponseGoesToTheAgentThatAsked(t *testing.T) {
	r := newRig(t, false)
	p, other := r.open(), r.open()
	other.newAgent(vendorClass())
	p.newAgent(vendorClass())
	id := p.newAgent(vendorClass())
	p.write(written(id, mad.MethodGet, 0xffffffff00000007, 100, 3), nil)
	m := r.answer()
	if tid := binary.BigEndian.Uint64(m.Data[8:]); tid>>32 == 0xffffffff || uint32(tid) != 7 {
		t.Errorf("transaction ID %#x", tid)
	}
	if m.QPN != 1 || m.PeerQPN != 1 || !m.Peer.Global || m.Peer.GID[15] != 9 {
		t.Errorf("sent %+v", m)
	}
	r.arrive(m, true, reason.None)
	h, data := p.read()
	if h.ID != id || h.Status != 0 || h.Length != 64+256 || !slices.Equal(data, m.Data[:]) || other.readable || p.readable {
		t.Errorf("read %+v", h)
	}
	// A second one answers nothing. Neither does one to an agent that never was.
	r.arrive(m, true, reason.MADNoRequest)
	binary.BigEndian.PutUint64(m.Data[8:], 99<<32|7)
	r.arrive(m, false, reason.None)
	if r.all.deadline() != never {
		t.Error("waits for something")
	}
}

func TestRequestIsRepeatedAndThenTimesOut(t *testing.T) {
	r := newRig(t, false)
	p := r.open()
	id := p.newAgent(vendorClass())
	b := written(id, mad.MethodGet, 5, 100, 2)
	p.write(b, nil)
	for i, sent := range []int{1, 2, 3, 3} {
		if n := len(r.port.sent); n != sent {
			t.Fatalf("after %d time-outs: %d sent, expected %d", i, n, sent)
		}
		r.advance(99 * time.Millisecond)
		if n := len(r.port.sent); n != sent || p.readable {
			t.Fatalf("%d sent too early", n)
		}
		if i == 2 {
			p.write(b, syscall.EINVAL) // still waits
		}
		r.advance(time.Millisecond)
		if i == 2 {
			break
		}
	}
	h, data := p.read()
	sent, _ := uapi.Parse[uapi.MADHeader](b)
	sent.Status = uint32(syscall.ETIMEDOUT)
	if h != sent || !slices.Equal(data, r.port.sent[0].Data[:mad.HeaderLen]) {
		t.Errorf("read %+v with % x", h, data)
	}
	r.arrive(r.answer(), true, reason.MADNoRequest)
	p.write(b, nil) // may be sent again
}

func TestDuplicatesAreRefused(t *testing.T) {
	r := newRig(t, false)
	p := r.open()
	id := p.newAgent(vendorClass())
	p.write(written(id, mad.MethodGet, 5, 100, 0), nil)
	p.write(written(id, mad.MethodSet, 5, 0, 0), syscall.EINVAL)
	p.write(written(id, mad.MethodGet, 6, 100, 0), nil)
	// The same number is another transaction if it is a response, or another agent's.
	response := written(id, mad.MethodGetResponse, 5, 100, 0)
	p.write(response, nil)
	p.write(response, syscall.EINVAL)
	response[40]++ // the GID
	p.write(response, nil)
	p.write(written(p.newAgent(vendorClass()), mad.MethodGet, 5, 100, 0), nil)
	// A response ends requests alone.
	r.advance(time.Second)
	for range 5 {
		if h, _ := p.read(); h.Status != uint32(syscall.ETIMEDOUT) {
			t.Errorf("status %d", h.Status)
		}
	}
}

func TestRequestsGoToTheAgentOfTheirMethod(t *testing.T) {
	r := newRig(t, false)
	a, b := r.open(), r.open()
	a.newAgent(vendorClass(mad.MethodGet, mad.MethodSet))
	if _, err := b.register(vendorClass(mad.MethodSet)); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("the method of another file: %v", err)
	}
	id := b.newAgent(vendorClass(mad.MethodSend))
	other := vendorClass(mad.MethodGet)
	other.oui[0]++
	b.newAgent(other)
	for _, c := range []struct {
		method uint8
		to     *program
	}{{mad.MethodGet, a}, {mad.MethodSend, b}, {mad.MethodTrap, nil}} {
		var m MAD
		m.QPN, m.PeerQPN, m.Peer = 1, 0x123456, Address{LID: 0x1234, SL: 3, PathBits: 1, PKeyIndex: 2}
		copy(m.Data[:], written(0, c.method, 77, 0, 0)[64:])
		r.arrive(&m, c.to != nil, reason.None)
		if c.to == nil {
			continue
		}
		h, _ := c.to.read()
		if h.QPN != [4]byte{0, 0x12, 0x34, 0x56} || h.LID != [2]byte{0x12, 0x34} || h.SL != 3 || h.PathBits != 1 || h.PKeyIndex != 2 || h.GRHPresent != 0 {
			t.Errorf("header %+v", h)
		}
	}
	if err := b.unregister(id); err != nil {
		t.Fatal(err)
	}
	if err := b.unregister(id); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("unregistered twice: %v", err)
	}
	a.newAgent(vendorClass(mad.MethodSend))
}

func TestUnregisteredAgentHearsNothing(t *testing.T) {
	r := newRig(t, false)
	p := r.open()
	id := p.newAgent(vendorClass(mad.MethodSet))
	p.write(written(id, mad.MethodGet, 1, 100, 1), nil)
	p.write(written(id, mad.MethodGetResponse, 2, 100, 1), nil)
	answer := r.port.sent[0]
	answer.Data[3] |= mad.ResponseBit
	if err := p.unregister(id); err != nil {
		t.Fatal(err)
	}
	r.arrive(&answer, false, reason.None)
	r.advance(time.Second)
	if p.readable || len(r.port.sent) != 2 || p.count != 0 || len(p.waiting) != 0 || r.all.deadline() != never {
		t.Errorf("readable %t, %d sent, %d wait", p.readable, len(r.port.sent), p.count)
	}
	p.write(written(id, mad.MethodGet, 1, 100, 1), syscall.EINVAL)
}

func TestCloseEndsEverything(t *testing.T) {
	r := newRig(t, false)
	p := r.open()
	for i := range maxAgents {
		if id := p.newAgent(vendorClass()); id != uint32(i) {
			t.Fatalf("agent %d has number %d", i, id)
		}
		p.write(written(uint32(i), mad.MethodGet, 1, 100, 1), nil)
	}
	if _, err := p.register(vendorClass()); !errors.Is(err, syscall.ENOMEM) {
		t.Errorf("one agent too many: %v", err)
	}
	p.close()
	if len(r.all.byTID) != 0 || len(r.all.methods) != 1 || len(r.all.requests) != 0 || p.memory.Held() != 0 {
		t.Errorf("left: %d agents, %d methods, %d requests, %d bytes", len(r.all.byTID), len(r.all.methods), len(r.all.requests), p.memory.Held())
	}
}

func TestRegistrationsThatLinuxRefuses(t *testing.T) {
	any := func(uint8) bool { return true }
	for name, c := range map[string]struct {
		smi  bool
		r    registration
		want error
	}{
		"queue pair 0 of Ethernet":          {false, registration{class: mad.ClassLIDRouted, version: 1}, syscall.EPROTONOSUPPORT},
		"queue pair 0":                      {true, registration{class: mad.ClassLIDRouted, version: 1}, nil},
		"directed routes":                   {true, registration{class: mad.ClassDirected, version: 1}, nil},
		"subnet management on queue pair 1": {true, registration{qpn: 1, class: mad.ClassDirected, version: 1}, syscall.EINVAL},
		"performance on queue pair 0":       {true, registration{class: mad.ClassPerformance, version: 1}, syscall.EINVAL},
		"performance":                       {false, registration{qpn: 1, class: mad.ClassPerformance, version: 1}, nil},
		"a class out of range":              {false, registration{qpn: 1, class: 0x50, version: 1}, syscall.EINVAL},
		"a version out of range":            {false, registration{qpn: 1, class: mad.ClassPerformance, version: 0x83}, syscall.EINVAL},
		"a vendor's class without an OUI":   {false, registration{qpn: 1, class: testClass, version: 1}, syscall.EINVAL},
		"transfers of another version":      {false, registration{qpn: 1, class: mad.ClassAdministration, version: 2, transfers: 2}, syscall.EINVAL},
		"transfers of a class without":      {false, registration{qpn: 1, class: mad.ClassPerformance, version: 1, transfers: 1}, syscall.EINVAL},
		"transfers":                         {false, registration{qpn: 1, class: mad.ClassAdministration, version: 2, transfers: 1}, nil},
		"the connection manager's messages": {false, registration{qpn: 1, class: mad.ClassCM, version: mad.CMClassVersion}, syscall.EINVAL},
		"its class in another version":      {false, registration{qpn: 1, class: mad.ClassCM, version: 1}, nil},
		"no class":                          {false, registration{qpn: 1}, nil},
	} {
		c.r.methods = any
		if _, err := newRig(t, c.smi).open().register(&c.r); !errors.Is(err, c.want) {
			t.Errorf("%s: error %v, expected %v", name, err, c.want)
		}
	}
}

func TestWritesThatLinuxRefuses(t *testing.T) {
	r := newRig(t, false)
	p := r.open()
	id := p.newAgent(vendorClass())
	good := written(id, mad.MethodGet, 1, 0, 0)
	for name, c := range map[string]struct {
		b    []byte
		want error
	}{
		"nothing":                  {nil, syscall.EINVAL},
		"a header":                 {good[:64], syscall.EINVAL},
		"less than the headers":    {good[:64+35], syscall.EINVAL},
		"less than the class's":    {good[:64+39], syscall.EINVAL},
		"a short datagram":         {good[:64+40], nil},
		"more than a datagram":     {append(slices.Clone(good), 0), syscall.EINVAL},
		"another agent":            {written(id+1, mad.MethodGet, 1, 0, 0), syscall.EINVAL},
		"an agent beyond the last": {written(maxAgents, mad.MethodGet, 1, 0, 0), syscall.EINVAL},
	} {
		if err := p.send(0, c.b); !errors.Is(err, c.want) {
			t.Errorf("%s: error %v, expected %v", name, err, c.want)
		}
	}
	r.port.broken = syscall.ENETUNREACH
	p.write(written(id, mad.MethodGet, 1, 100, 0), syscall.ENETUNREACH)
	if p.count != 0 || r.all.deadline() != never {
		t.Error("a request waits that was not sent")
	}
}

func TestReadNeedsRoom(t *testing.T) {
	r := newRig(t, false)
	p := r.open()
	p.newAgent(vendorClass(mad.MethodGet))
	if _, err := p.next(63); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("less than a header: %v", err)
	}
	if _, err := p.next(64); !errors.Is(err, syscall.EAGAIN) {
		t.Errorf("nothing there: %v", err)
	}
	m := MAD{QPN: 1}
	copy(m.Data[:], written(0, mad.MethodGet, 1, 0, 0)[64:])
	r.arrive(&m, true, reason.None)
	for range 2 { // the datagram stays
		if _, err := p.next(64 + 255); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("one byte too few: %v", err)
		}
	}
	p.pkeys = false
	if b, err := p.next(56 + 256); err != nil || len(b) != 56+256 || !slices.Equal(b[56:], m.Data[:]) {
		t.Errorf("the old header: %d bytes, %v", len(b), err)
	}
}

func TestProgramThatDoesNotReadLosesDatagrams(t *testing.T) {
	r := newRig(t, false)
	p := r.open()
	id := p.newAgent(vendorClass(mad.MethodGet))
	m := MAD{QPN: 1}
	copy(m.Data[:], written(0, mad.MethodGet, 1, 0, 0)[64:])
	for range maxReceived {
		r.arrive(&m, true, reason.None)
	}
	r.arrive(&m, true, reason.MADReceiveQueue)
	for i := range uint64(maxWaiting) {
		p.write(written(id, mad.MethodGet, i, 1000, 0), nil)
	}
	p.write(written(id, mad.MethodGet, maxWaiting, 1000, 0), syscall.ENOMEM)
	p.write(written(id, mad.MethodGet, maxWaiting, 0, 0), nil)
	r.advance(time.Second) // no time-out is lost
	if n := len(p.received); n != maxReceived+maxWaiting {
		t.Errorf("%d to be read", n)
	}
}

// carry delivers what the port has sent, from the agents of one rig to those of another,
// until nothing is left. It loses each datagram for which lost reports true.
func carry(a, b *rig, lost func(m *MAD) bool) {
	for range 1000 {
		a.advance(time.Millisecond)
		b.advance(time.Millisecond)
		for _, x := range [][2]*rig{{a, b}, {b, a}} {
			sent := x[0].port.sent
			x[0].port.sent = nil
			for i := range sent {
				if !lost(&sent[i]) {
					_, _ = x[1].all.receive(x[1].now, &sent[i])
				}
			}
		}
	}
}

// TestAgentsOfTheNextProcessHaveOtherTransactions: the peers of a port may still repeat their
// responses to a process that has ended, which would be taken for those to its successor.
func TestAgentsOfTheNextProcessHaveOtherTransactions(t *testing.T) {
	seen := make(map[uint32]bool)
	for range 4 {
		p := newRig(t, false).open()
		seen[p.agent(p.newAgent(vendorClass())).tid] = true
	}
	if len(seen) < 3 { // two equal ones are a chance of one in three million
		t.Errorf("4 processes use %d halves of transaction IDs", len(seen))
	}
}
