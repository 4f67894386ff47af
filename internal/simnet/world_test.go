package simnet_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"time"

	"softrdma/internal/adapter"
	"softrdma/internal/congestion"
	"softrdma/internal/machine"
	"softrdma/internal/psn"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
	"softrdma/internal/simnet"
	"softrdma/internal/simnet/rig"
)

// timeLimit is the limit of virtual time of a world. A longer wait counts as a hang.
const timeLimit = 60 * time.Second

// A world is everything made from one seed: hosts, queue pairs, their programs and the model
// of the expected results.
type world struct {
	ethernet bool // RoCE v1
	rng      *rand.Rand
	net      *simnet.Network
	profile  profile
	hosts    []*host
	ends     []*end
	recvs    []*recv // by number
	bonds    []*bond
	err      error
	ending   bool // nothing more is posted

	nextBase uint64
	due      time.Duration // next action of the application
	idle     uint          // rounds without any action
	timeout  uint8         // field of the connections
	pace     time.Duration // of the application
	stats    tally
}

// A tally counts events, to show that the seeds cover them.
type tally struct {
	completions [32]int // of work requests, by status
	ops         [16]int // successful ones, by operation
	receives    int
	datagrams   int
	steps       int
	bytes       int
	refusals    [reason.Count]uint64
	manners     map[manner]int // ends of connections
	bonds       int            // memory paths
	referred    int            // messages whose payload was not in a ring
}

// A manner is the congestion control and loss recovery of a connection.
type manner struct {
	control        congestion.Kind
	recovery, peer congestion.Recovery
}

// newManner draws a manner; def stands for the default.
func (w *world) newManner(def manner) manner {
	m := manner{congestion.Kind(w.rng.IntN(int(congestion.None) + 1)), congestion.Recovery(w.rng.IntN(3)), 0}
	if m.control == congestion.Default {
		m.control = def.control
	}
	if m.recovery == congestion.DefaultRecovery {
		m.recovery = def.recovery
	}
	return m
}

// A host is a device with its model.
type host struct {
	*rig.Host
	w        *world
	index    int
	manner   manner // of connections that do not choose one
	cqs      []*adapter.CQ
	srq      *shared
	areas    []*area
	source   *area // source of messages
	readable *area // memory that peers READ
	shared   *area // words that all peers add to
	added    uint64
	maybe    uint64 // additions with unknown outcome
	olds     map[uint64]bool
	ends     []*end
	ahs      []uint32
}

// fail records the first failure.
func (w *world) fail(format string, a ...any) {
	if w.err == nil {
		w.err = fmt.Errorf("at %v: %s", w.net.Clock(), fmt.Sprintf(format, a...))
	}
}

func (w *world) chance(percent int) bool { return w.rng.IntN(100) < percent }

func newWorld(seed uint64) *world { return newWorldOver(seed, overUDP) }

// A medium is the connection between the devices of a world.
type medium int

const (
	overUDP       medium = iota // RoCE v2
	overEthernet                // RoCE v1
	throughMemory               // RoCE v2 with the memory path for some hosts, permanently or at intervals
)

// newWorldOver makes a world on a medium.
func newWorldOver(seed uint64, m medium) *world {
	w := &world{ethernet: m == overEthernet, rng: rand.New(rand.NewPCG(seed, 0)), net: simnet.New(seed), nextBase: 0x10000000, stats: tally{manners: make(map[manner]int)}}
	w.profile = newProfile(w)
	w.addLanes(seed)
	six := w.chance(40)
	w.net.Drive(w)
	for i := range 2 + w.rng.IntN(2) {
		w.addHost(i, six)
	}
	if m == throughMemory {
		w.joinHosts()
	}
	for range 1 + w.rng.IntN(4) {
		kind := qp.RC
		if w.chance(20) {
			kind = qp.UC
		}
		a := w.hosts[w.rng.IntN(len(w.hosts))]
		b := w.hosts[w.rng.IntN(len(w.hosts))] // may be the same host
		w.connect(kind, a, b)
	}
	if w.chance(50) {
		w.addDatagrams()
	}
	return w
}

func (w *world) addHost(i int, six bool) {
	p := &w.profile
	a := netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(i + 1)}), 4791)
	if six {
		a = netip.AddrPortFrom(netip.AddrFrom16([16]byte{0: 0xfd, 15: byte(i + 1)}), 4791)
	}
	lc := simnet.LinkConfig{
		Egress: p.faults, Ingress: p.faults, ReceiveBuffer: p.buffer,
		NoCoalescing: w.chance(30), Segments: []int{0, 0, 1, 2, 16, 64}[w.rng.IntN(6)], Ports: w.rng.IntN(4), Counts: w.chance(50),
	}
	if lc.Ethernet = w.ethernet; !w.ethernet { // a lane's filter only accepts its own frames
		lc.Steer = p.steer
	}
	m := w.newManner(manner{control: congestion.Window, recovery: congestion.SelectiveRepeat})
	r, err := rig.OpenLanes(w.net, a, lc, adapter.Config{
		Window: []int{0, 0, 4 << 10, 64 << 10}[w.rng.IntN(4)], Recovery: m.recovery, Control: m.control,
	}, p.lanes)
	if err != nil {
		w.fail("%v", err)
		return
	}
	h := &host{Host: r, w: w, index: i, manner: m, olds: make(map[uint64]bool)}
	w.hosts = append(w.hosts, h)
	for range 1 + w.rng.IntN(3) {
		c, err := h.Dev.CreateCQ(4096, nil)
		if err != nil {
			w.fail("%v", err)
			return
		}
		h.cqs = append(h.cqs, c)
	}
	h.source = h.newArea("source", 1<<17, 0, true)
	h.readable = h.newArea("readable", 1<<17, qp.RemoteRead, true)
	h.shared = h.newArea("shared words", 64, qp.LocalWrite|qp.RemoteAtomic, false)
	if w.chance(40) {
		h.newShared()
	}
}

func (h *host) cq() *adapter.CQ { return h.cqs[h.w.rng.IntN(len(h.cqs))] }

// connect makes a connection with a program on both sides.
func (w *world) connect(kind qp.Type, a, b *host) {
	x, y := w.newEnd(kind, a), w.newEnd(kind, b)
	if w.err != nil {
		return
	}
	x.peer, y.peer = y, x
	if kind == qp.RC {
		x.manner.peer, y.manner.peer = y.manner.recovery, x.manner.recovery
		w.stats.manners[x.manner]++
		w.stats.manners[y.manner]++
	}
	o := rig.Options{
		MTU: 256 << w.rng.IntN(5), Reads: uint8(1 + w.rng.IntN(16)), Timeout: w.timeout,
		MinRNRTimer: uint8(1 + w.rng.IntN(12)), TrafficClass: uint8(w.rng.IntN(256)), FlowLabel: uint32(w.rng.IntN(3)),
	}
	for i := range o.PSN {
		o.PSN[i] = w.firstPSN()
	}
	if w.chance(10) {
		o.RNRRetry, o.NoRNRRetry = uint8(w.rng.IntN(3)), true
		o.NoRNRRetry = o.RNRRetry == 0
		x.rnrLimited, y.rnrLimited = true, true
	}
	if err := rig.Connect(x.q, y.q, o); err != nil {
		w.fail("connecting: %v", err)
	}
	if kind == qp.RC && w.chance(30) {
		x.trouble = trouble(1 + w.rng.IntN(int(troubles)-1))
		x.troubleAt = w.rng.IntN(x.budget)
	}
}

// firstPSN returns a PSN that is often close to the wrap.
func (w *world) firstPSN() psn.PSN {
	p := w.rng.Uint32()
	if w.chance(50) {
		p = 0xffffff - uint32(w.rng.IntN(64))
	}
	return psn.New(p)
}

// Progress runs the application, which posts, polls and interferes at random times.
func (w *world) Progress() time.Duration {
	if w.net.Clock() < w.due {
		return w.due
	}
	busy := false
	for _, h := range w.hosts {
		busy = h.poll() || busy
		h.events()
	}
	for _, e := range w.ends {
		if w.err == nil {
			busy = e.act() || busy
		}
	}
	if busy {
		w.idle = 0
	} else {
		w.idle = min(w.idle+1, 5)
	}
	w.due = w.net.Clock() + 1 + time.Duration(w.rng.Int64N(int64(w.pace)<<w.idle))
	return w.due
}

// poll polls some of the host's queues, and not always completely.
func (h *host) poll() (any bool) {
	var batch [16]queue.CQE
	for _, c := range h.cqs {
		if h.w.chance(30) {
			continue
		}
		if err := c.Err(); err != nil {
			h.w.fail("%v", err)
		}
		for range 1 + h.w.rng.IntN(3) {
			n := rig.Poll(c, batch[:1+h.w.rng.IntN(len(batch))])
			for i := range n {
				h.completion(&batch[i])
			}
			any = any || n > 0
		}
	}
	return any
}

// pollAll polls all completions: poll skips queues at random.
func (h *host) pollAll() {
	for range 20 {
		h.poll()
	}
}

func (h *host) completion(c *queue.CQE) {
	e := h.end(c.QPN)
	switch {
	case e == nil:
		h.w.fail("completion for unknown queue pair %#x: %+v", c.QPN, c)
	case e.dead: // its earlier completions are ignored
	case c.WRID&recvID != 0:
		e.received(c)
	default:
		e.sent(c)
	}
}

func (h *host) end(qpn uint32) *end {
	for _, e := range h.ends {
		if e.q.QPN == qpn {
			return e
		}
	}
	return nil
}

// events handles the asynchronous events.
func (h *host) events() {
	for _, v := range h.Events() {
		q, _ := v.Element.(*adapter.QP)
		switch v.Type {
		case machine.EventSQDrained:
			if e := h.end(q.QPN); e != nil && !e.dead {
				e.drained()
			}
		case machine.EventCommEst, machine.EventSRQLimitReached, machine.EventQPLastWQEReached:
		case machine.EventQPReqErr, machine.EventQPAccessErr:
			if e := h.end(q.QPN); e != nil && !e.broken() {
				h.w.fail("%s: event %d without a cause: %v", e.name, v.Type, v.Detail)
			}
		default:
			h.w.fail("event %d: %v", v.Type, v.Detail)
		}
	}
}

func (w *world) finished() bool {
	if w.err != nil {
		return true
	}
	w.stats.steps++
	for _, e := range w.ends {
		if !e.finished() {
			return false
		}
	}
	return true
}

// run runs the world to its end and checks everything.
func (w *world) run() error {
	if w.err == nil {
		if err := w.net.Run(w.finished, timeLimit); err != nil {
			w.fail("%v; %s", err, w.waiting())
		}
	}
	w.net.Sleep(4 * w.profile.trip())
	w.ending = true
	for _, e := range w.ends {
		if w.err == nil {
			e.drainReceives()
		}
	}
	if w.err == nil {
		w.checkEnd()
	}
	if w.err == nil {
		w.tearDown()
	}
	return w.err
}

// waiting describes what is not finished.
func (w *world) waiting() (s string) {
	for _, e := range w.ends {
		if !e.finished() {
			s += fmt.Sprintf("%s in %v: %d to post, %d pending, %d of %d received; ", e.name, e.q.Query().State,
				e.budget, len(e.pending), e.nextIn, len(e.inbound))
		}
	}
	return s
}

func (w *world) tearDown() {
	for _, h := range w.hosts {
		for _, e := range h.ends {
			w.check(e.q.Destroy())
			e.freeWindow()
		}
		h.Events()
		for _, c := range h.cqs {
			w.check(c.Destroy())
		}
		if h.srq != nil {
			w.check(h.srq.queue.Destroy())
		}
		for _, n := range h.ahs {
			w.check(h.PD.DestroyAH(n))
		}
		for _, a := range h.areas {
			w.check(h.PD.Deregister(a.region))
		}
		for r := range w.stats.refusals {
			w.stats.refusals[r] += h.Dev.Trace.Counter(reason.Reason(r))
		}
		w.endBonds()
		for _, l := range append(h.More, h.Link) {
			w.check(l.Wrong)
		}
		w.check(h.Close())
	}
	w.net.Release(w)
}

func (w *world) check(err error) {
	if err != nil {
		w.fail("%v", err)
	}
}
