package control

import (
	"encoding/binary"
	"testing"
	"time"

	"softrdma/internal/fabric/port"
	"softrdma/internal/fabric/subnet"
	"softrdma/internal/management/agent"
	"softrdma/internal/management/routing"
	"softrdma/internal/management/sm"
	"softrdma/internal/reason"
	"softrdma/internal/topology"
	"softrdma/internal/wire/ib"
	"softrdma/internal/wire/mad/smp"
)

// A world is a subnet that a manager has brought up, with a program on each adapter.
type world struct {
	*subnet.Subnet
	t        *testing.T
	now      time.Duration
	manager  *sm.Manager
	adapters []int
	hosts    []*host // by number of the adapter
	drops    []reason.Detail
}

// A host counts the datagrams that arrive, by source, service level and number.
type host struct {
	got     map[datagram]int
	refuses func(ib.LRH) bool
}

type datagram struct {
	source int
	sl     uint8
	number uint32
}

func (h *host) MAD(time.Duration, *agent.Arrival) {}
func (h *host) Notify(int, agent.Event)           {}

func (h *host) Packet(_ time.Duration, _ int, frame []byte) bool {
	var n ib.Native
	var p ib.Packet
	if n.Parse(frame) != ib.OK || p.Parse(n.Body) != ib.OK || len(p.Payload) < 8 {
		return true
	}
	if h.refuses != nil && h.refuses(n.LRH) {
		return false
	}
	h.got[datagram{int(binary.BigEndian.Uint32(p.Payload)), n.LRH.SL, binary.BigEndian.Uint32(p.Payload[4:])}]++
	return true
}

// newWorld brings up a generated fabric whose ports have a number of data lanes.
func newWorld(t *testing.T, shape string, vls int, a routing.Algorithm) *world {
	t.Helper()
	f, err := topology.Generate(shape)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t}
	w.Subnet = subnet.New(subnet.Config{Fabric: f, Port: port.Config{VLs: vls, Refresh: port.Never},
		Dropped: func(_ topology.End, d reason.Detail) { w.drops = append(w.drops, d) }})
	for i := range f.Nodes {
		if f.Nodes[i].Kind == topology.Adapter {
			h := &host{got: make(map[datagram]int)}
			w.adapters, w.hosts = append(w.adapters, i), append(w.hosts, h)
			w.Attach(i, h)
		}
	}
	w.run(10 * time.Microsecond) // the links train
	at := w.adapters[0]
	w.manager = sm.New(&sm.Config{GUID: f.Nodes[at].Ports[1].GUID, Algorithm: a})
	w.Manage(w.now, at, w.manager)
	w.settle()
	w.drops = nil
	return w
}

func (w *world) run(d time.Duration) {
	w.now += d
	w.Run(w.now)
}

// settle runs until the manager has nothing to do.
func (w *world) settle() {
	w.t.Helper()
	for end := w.now + 10*time.Second; ; {
		w.run(time.Millisecond)
		if w.manager.Idle() {
			return
		}
		if w.now > end {
			w.t.Fatalf("the manager does not come to rest: %+v", w.manager.Status())
		}
	}
}

// do asks a view, and fails the test on an error.
func (w *world) do(verb string, args ...string) *Reply {
	w.t.Helper()
	r, err := Do(w.now, w.Subnet, w.manager, Request{Verb: verb, Args: args})
	if err != nil {
		w.t.Fatalf("%s %q: %v", verb, args, err)
	}
	return &r
}

func (w *world) lid(adapter int) uint16 {
	lid, _ := w.Agent(w.adapters[adapter]).LID(1)
	return lid
}

// send sends a datagram of 2 KiB, and reports whether the adapter took it.
func (w *world) send(from, to int, sl uint8, number uint32) bool {
	payload := make([]byte, 2048)
	binary.BigEndian.PutUint32(payload, uint32(from))
	binary.BigEndian.PutUint32(payload[4:], number)
	p := ib.Packet{BTH: ib.BTH{Opcode: ib.UDSendOnly, PKey: smp.DefaultPKey, DestQPN: 77}, Payload: payload}
	frame := ib.AppendNative(w.Pool().Buffer(0), ib.LRH{SL: sl, Next: ib.LocalBTH, DLID: ib.LID(w.lid(to)), SLID: ib.LID(w.lid(from))}, nil, &p)
	return w.Send(w.now, topology.End{Node: w.adapters[from], Port: 1}, frame)
}

// A stream is datagrams from one adapter to another, as fast as they are taken.
type stream struct {
	from, to int
	sl       uint8
	total    uint32
	sent     uint32
}

// saturate runs streams for a time, and reports whether all were sent and arrived.
func (w *world) saturate(streams []*stream, d time.Duration) bool {
	for end := w.now + d; w.now < end; w.run(2 * time.Microsecond) {
		for _, s := range streams {
			for s.sent < s.total && w.send(s.from, s.to, s.sl, s.sent) {
				s.sent++
			}
		}
	}
	for _, s := range streams {
		if s.sent < s.total || w.arrived(s) < int(s.total) {
			return false
		}
	}
	return true
}

// arrived counts the datagrams of a stream that arrived, each of which must come once.
func (w *world) arrived(s *stream) (n int) {
	for d, times := range w.hosts[s.to].got {
		if d.source == s.from && d.sl == s.sl {
			n++
			if times != 1 {
				w.t.Errorf("%+v arrived %d times", d, times)
			}
		}
	}
	return n
}

// fabricEnd is port 1 of an adapter.
func (w *world) fabricEnd(name string) topology.End {
	return topology.End{Node: w.node(name), Port: 1}
}
