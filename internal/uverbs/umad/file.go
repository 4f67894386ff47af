//go:build linux

package umad

import (
	"encoding/binary"
	"slices"
	"syscall"
	"time"

	"softrdma/internal/reason"
	"softrdma/internal/uverbs/client"
	"softrdma/internal/wire/mad"
	"softrdma/internal/wire/uapi"
)

// The limits of an open file. Linux has the first and, at 200,000 datagrams, the last.
const (
	maxAgents   = 32
	maxWaiting  = 1 << 14 // requests without a response
	maxReceived = 1 << 14 // datagrams that the program has not read
	maxBytes    = 1 << 26 // and their bytes
	maxGiven    = 64      // datagrams in the program's socket
)

// A file is an open file umadN. One call at a time uses it.
type file struct {
	agents *agents
	memory *client.Quota // of the user; counts what waits
	socket socket

	list       [maxAgents]*agent
	registered bool // has had an agent

	// Of agents.mu.
	pkeys     bool // its headers have the P_Key index; changed by calls only, which need no lock to read it
	waiting   map[duplicate]int
	count     int        // requests that wait
	received  []packet   // not in the program's socket
	given     int        // to the socket since the program last asked
	bytes     int        // of received
	transfers int        // that arrive
	arrivals  []*inbound // transfers that have arrived, the oldest first
}

// A socket is what a program reads from. It may not block.
type socket interface {
	// Try adds a packet if there is room, and reports whether there was.
	Try(packet []byte) bool
	// Put adds a record that makes the program ask for the next packet.
	Put(record []byte)
}

// A packet is what a program reads: a datagram that arrived, or the beginning of one whose
// response is overdue.
type packet struct {
	header uapi.MADHeader
	data   []byte
	held   int64 // of the user's memory
}

// recordBytes is how much memory a packet or a request counts for, besides its data.
const recordBytes = 1 << 10

func newFile(a *agents, memory *client.Quota, s socket) *file {
	return &file{agents: a, memory: memory, socket: s, waiting: make(map[duplicate]int)}
}

// setPKeys says whether headers have the P_Key index, and returns what held before.
func (f *file) setPKeys(on bool) (before bool) {
	f.agents.mu.Lock()
	defer f.agents.mu.Unlock()
	before, f.pkeys = f.pkeys, on
	return before
}

func (f *file) headerLen() int {
	if f.pkeys {
		return uapi.Size[uapi.MADHeader]()
	}
	return uapi.MADHeaderOld
}

// register makes an agent and returns its number.
func (f *file) register(r *registration) (uint32, error) {
	id := slices.Index(f.list[:], nil)
	if id < 0 {
		return 0, client.Refuse(syscall.ENOMEM, reason.MADAgents, maxAgents, maxAgents+1)
	}
	g, err := f.agents.register(f, uint32(id), r)
	if err != nil {
		return 0, err
	}
	f.list[id] = g
	return uint32(id), nil
}

// agent returns the agent of a number, or nil.
func (f *file) agent(id uint32) *agent {
	if id >= maxAgents {
		return nil
	}
	return f.list[id]
}

func (f *file) unregister(id uint32) error {
	g := f.agent(id)
	if g == nil {
		return syscall.EINVAL
	}
	f.agents.unregister(g)
	f.list[id] = nil
	return nil
}

// close ends all agents.
func (f *file) close() {
	for id, g := range f.list {
		if g != nil {
			f.agents.unregister(g)
			f.list[id] = nil
		}
	}
	f.agents.mu.Lock()
	for _, p := range f.received {
		f.memory.Return(p.held)
	}
	f.received = nil
	f.agents.mu.Unlock()
}

// send sends what a program has written: a header and a datagram, whose missing end is zero.
func (f *file) send(now time.Duration, b []byte) error {
	n := f.headerLen()
	if len(b) < n+transferLen {
		return syscall.EINVAL
	}
	r := &request{index: -1}
	copy(uapi.Bytes(&r.header), b[:n])
	b = b[n:]
	r.agent = f.agent(r.header.ID)
	var h mad.Header
	if r.agent == nil {
		return syscall.EINVAL
	}
	copy(r.mad.Data[:], b)
	h.Parse(&r.mad.Data)
	whole := r.agent.rmpp && segment(h.Class, &r.mad.Data) // the port makes the segments
	if len(b) < dataOffset(h.Class) || len(b) > mad.Len && !whole || len(b) > maxTransfer {
		return syscall.EINVAL
	}
	r.answers = response(&h)
	if !r.answers { // the response names the agent by its transaction ID
		h.TID = uint64(r.agent.tid)<<32 | h.TID&0xffffffff
		h.Put(&r.mad.Data)
	}
	r.mad.QPN, r.mad.PeerQPN, r.mad.Peer = r.agent.qpn, binary.BigEndian.Uint32(r.header.QPN[:])&0xffffff, addressOf(&r.header)
	r.key = duplicate{transaction: transaction{h.TID, h.Class}, answers: r.answers}
	if r.answers {
		r.key.global, r.key.peer = r.mad.Peer.Global, r.header.GID
		if !r.key.global {
			r.key.peer = [16]byte{0: r.header.LID[0], 1: r.header.LID[1]}
		}
	}
	r.timeout, r.retries = time.Duration(r.header.TimeoutMS)*time.Millisecond, r.header.Retries
	r.due = now + r.timeout
	if whole {
		return f.post(r, slices.Clone(b[dataOffset(h.Class):]))
	}
	return f.post(r, nil)
}

// post sends a datagram, or data as a transfer if it is not nil. It makes a datagram wait
// that has a time-out.
func (f *file) post(r *request, data []byte) error {
	a := f.agents
	a.mu.Lock()
	if f.waiting[r.key] > 0 && (r.agent.rmpp || !segment(r.key.class, &r.mad.Data)) {
		a.mu.Unlock()
		return syscall.EINVAL
	}
	if !r.answers { // an earlier response may have come in a transfer that is still known
		if in := r.agent.inbound[transferKey{r.key.transaction, peerOf(&r.mad.Peer), r.mad.Peer.Global}]; in != nil {
			a.forgetInbound(in)
		}
	}
	if r.timeout > 0 || data != nil {
		if err := f.reserve(r, len(data)); err != nil {
			a.mu.Unlock()
			return err
		}
		if data != nil {
			a.dispatch(r, data)
			a.mu.Unlock()
			a.notify()
			return nil
		}
		a.begin(r)
	}
	m, first := r.mad, r.index == 0
	a.mu.Unlock()
	if first {
		a.notify()
	}
	err := a.port.Send(&m)
	if err != nil {
		a.mu.Lock()
		a.end(r)
		a.mu.Unlock()
	}
	return err
}

// reserve counts a request that is to wait and its data. The caller holds agents.mu.
func (f *file) reserve(r *request, data int) error {
	if f.count >= maxWaiting {
		return client.Refuse(syscall.ENOMEM, reason.MADSendQueue, maxWaiting, uint64(f.count)+1)
	}
	n := int64(recordBytes + data)
	if err := f.memory.Take(n); err != nil {
		return err
	}
	r.held = n
	return nil
}

// arrived adds a datagram or the data of a transfer for an agent. The caller holds
// agents.mu.
func (f *file) arrived(g *agent, m *MAD, data []byte) reason.Detail {
	d := f.full()
	if d.Reason != reason.None {
		return d
	}
	p := packet{headerOf(m, g.id), data, int64(recordBytes + len(data))}
	if err := f.memory.Take(p.held); err != nil {
		return client.Why(err)
	}
	f.add(p)
	return d
}

// full returns a reason if the program leaves too much unread. The caller holds agents.mu.
func (f *file) full() (d reason.Detail) {
	if n := len(f.received); n >= maxReceived || f.bytes > maxBytes {
		d = reason.Detail{Reason: reason.MADReceiveQueue, Expected: maxReceived, Found: uint64(n) + 1}
	}
	return d
}

// timedOut returns a request to the program: its header and that of the datagram. The caller
// holds agents.mu.
func (f *file) timedOut(r *request) {
	h := r.header
	h.Status = uint32(syscall.ETIMEDOUT)
	p := packet{header: h, data: slices.Clone(r.mad.Data[:mad.HeaderLen])}
	if f.memory.Take(recordBytes) == nil { // the request has just given it back
		p.held = recordBytes
	}
	f.add(p)
}

func (f *file) add(p packet) {
	if len(f.received) == 0 && f.give(&p) {
		return
	}
	f.received = append(f.received, p)
	f.bytes += len(p.data)
	if len(f.received) == 1 {
		f.ask()
	}
}

// give puts a packet into the program's socket and reports whether that succeeded. Those
// of transfers stay here, because the program may have no room for them.
func (f *file) give(p *packet) bool {
	if f.given >= maxGiven || len(p.data) > mad.Len || !f.socket.Try(f.encode(p)) {
		return false
	}
	f.given++
	f.memory.Return(p.held)
	return true
}

// ask makes the program ask for the oldest packet.
func (f *file) ask() { f.socket.Put([]byte{1}) }

// encode returns a packet as the program reads it.
func (f *file) encode(p *packet) []byte {
	size := f.headerLen()
	if p.header.Status == 0 {
		p.header.Length = uint32(size + len(p.data))
	}
	return append(uapi.Bytes(&p.header)[:size:size], p.data...)
}

// next returns the oldest packet as the program reads it into n bytes. The packet stays. If
// there is no room for a whole transfer, it returns ENOSPC and its beginning, whose header
// has the length.
func (f *file) next(n int) ([]byte, error) {
	size := f.headerLen()
	if n < size {
		return nil, syscall.EINVAL
	}
	f.agents.mu.Lock()
	defer f.agents.mu.Unlock()
	if len(f.received) == 0 {
		return nil, syscall.EAGAIN
	}
	p := f.received[0]
	switch b := f.encode(&p); {
	case n >= len(b):
		return b, nil
	case n >= size+mad.Len: // of a transfer
		return b[:size+mad.Len], syscall.ENOSPC
	}
	return nil, syscall.EINVAL
}

// remove removes the oldest packet, for which the program has asked, and gives it those
// that follow.
func (f *file) remove() {
	f.agents.mu.Lock()
	defer f.agents.mu.Unlock()
	f.memory.Return(f.received[0].held)
	f.given = 0
	for first := true; first || len(f.received) > 0 && f.give(&f.received[0]); first = false {
		f.bytes -= len(f.received[0].data)
		f.received[0] = packet{}
		f.received = f.received[1:]
	}
	if len(f.received) == 0 {
		f.received = nil
		return
	}
	f.ask()
}
