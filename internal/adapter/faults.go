package adapter

import (
	"slices"
	"time"

	"softrdma/faults"
	"softrdma/internal/adapter/schedule"
	"softrdma/internal/frame"
	"softrdma/internal/link"
	"softrdma/internal/machine"
	"softrdma/internal/object"
	"softrdma/internal/wire/ib"
)

const (
	// congested is ECN's mark (RFC 3168).
	congested = 0x03

	// longestReorder is how long a packet waits at most for those that are to overtake it.
	longestReorder = 10 * time.Millisecond

	// defaultQueue is how many bytes may wait for a limited rate.
	defaultQueue = 256 << 10

	// maxLate bounds the bytes of packets that wait. Those beyond it are lost.
	maxLate = 64 << 20
)

// A faultyLane is what a lane has while rules of faults apply to its packets: those that wait, as a task of
// the lane.
type faultyLane struct {
	lane  *packetLane
	rules *faults.Injector
	entry schedule.Entry
	facts faults.PacketFacts
	late  []*latePacket                  // by due
	bytes int                            // of late
	free  map[*faults.Rule]time.Duration // when a limited rate is next free
	again bool                           // packets pass that have waited
	ready bool                           // waits for its turn
	holds map[uint32]hold                // of queue pairs whose packets wait
}

// A latePacket leaves later.
type latePacket struct {
	packet
	due    time.Duration
	behind int         // packets that are to overtake it
	in     *machine.In // of a packet that was received: what it came with
}

var _ schedule.Task = (*faultyLane)(nil)

// inject lets rules of faults apply to the device. Nothing else uses the device yet.
func (d *Device) inject(x *faults.Injector) {
	d.cfg.Faults, x.Changed, x.Now, x.Struck = x, d.faultsChanged, d.clock, d.injected
	d.faultsChanged()
}

// faultsChanged follows a change of the rules. It is called without a lane.
func (d *Device) faultsChanged() {
	d.timeFaults()
	if d.IWARP() {
		d.streams.streams.FaultsChanged()
		return
	}
	d.lockedPackets(func(l *packetLane) {
		if x := d.cfg.Faults; l.faults == nil && (x.OnSent() || x.OnReceived()) {
			l.faults = &faultyLane{lane: l, rules: x}
			l.faults.entry.Init(l.faults)
		}
		if l.faults != nil {
			l.faults.free, l.faults.holds = make(map[*faults.Rule]time.Duration), make(map[uint32]hold)
		}
		l.watchChanged()
	})
}

// A faultRoute is a route to which rules of faults apply.
type faultRoute struct {
	route
	*faultyLane
}

// faulty returns a route with the device's rules for sent packets in front of it, if there are any.
func (t *flowTable) faulty(r route) route {
	l := t.lane
	if l.dev.portDown.Load() {
		return &downRoute{r}
	}
	if !l.dev.cfg.Faults.OnSent() || l.faults == nil {
		return r
	}
	return &faultRoute{r, l.faults}
}

// Prepare implements route.
func (r *faultRoute) Prepare(q *QP, o *machine.Out) {
	r.route.Prepare(q, o)
	o.Longest, o.Lossless = 0, false
}

// Send implements route.
func (r *faultRoute) Send(_ time.Duration, q *QP, f *txFlow, o *machine.Out, class frame.Class, _ int) int {
	return sendWhole(r, q, f, o, class)
}

// Put implements route.
func (r *faultRoute) Put(p *packet) {
	if r.again {
		r.route.Put(p)
		return
	}
	now := r.lane.dev.clock()
	r.facts.Received, r.facts.Peer, r.facts.QPN = false, p.flow.Peer.Addr(), p.q.QPN
	r.facts.Read(p.data)
	v := r.rules.Packet(now, &r.facts)
	if v.Hits > 0 {
		r.change(p, &v)
	}
	due, lost := r.due(now, p, &v)
	switch {
	case lost || v.Drop:
	case due > now || v.Behind > 0:
		r.keep(p, due, v.Behind)
	default:
		r.route.Put(p)
	}
	if v.Duplicate && !v.Drop && (v.Corrupt == nil || v.Corrupt.ICRC == "right") {
		r.route.Stamp(p)
		r.route.Put(p)
	}
	if v.Hits > 0 {
		r.show(p, &v)
	}
	r.overtaken(false)
}

// change changes the packet as the rules say.
func (r *faultRoute) change(p *packet, v *faults.Verdict) {
	if v.Mark {
		p.class.TrafficClass |= congested
		r.lane.net.Classify(p.flow.Flow, p.class)
		p.header = p.flow.Header(len(p.data))
		r.route.Stamp(p)
	}
	if v.Corrupt == nil {
		return
	}
	v.Change(part(p.data, v.Corrupt))
	switch {
	case v.Corrupt.ICRC == "right":
		p.stamp(p.id)
	case r.Path() != object.PathNetwork: // whose receiver computes no ICRC, and would drop the packet otherwise
		v.Drop = true
	}
}

// part returns the bytes of a packet that a rule corrupts.
func part(b []byte, rule *faults.Rule) []byte {
	header := ib.BTHLen
	if i := ib.Opcode(b[0]).Info(); i != nil {
		header = i.Len
	}
	end := len(b) - ib.ICRCLen
	if header = min(header, end); rule.Part == "header" {
		return b[:header]
	}
	return b[header:end]
}

// due returns when a packet leaves, and reports whether a full queue loses it.
func (r *faultRoute) due(now time.Duration, p *packet, v *faults.Verdict) (at time.Duration, lost bool) {
	at = now
	if x := v.Rate; x != nil && !v.Drop {
		at = max(now, r.free[x])
		queue := x.Queue
		if queue == 0 {
			queue = defaultQueue
		}
		if float64(at-now)*float64(x.Rate)/float64(time.Second) > float64(queue) {
			return at, true
		}
		r.free[x] = at + time.Duration(float64(len(p.data))*float64(time.Second)/float64(x.Rate))
	}
	if v.Behind > 0 {
		at += longestReorder
	}
	return at + v.Delay, false
}

// show counts a hit and shows the trace the packet.
func (r *faultRoute) show(p *packet, v *faults.Verdict) {
	e := hitEvent(p.q.QPN, v.Hits, v.Rule)
	e.Sent = true
	if r.lane.watch != nil {
		e.Fault = v.Where()
		e.Packet = p.traced()
	}
	r.lane.dev.Trace.Inject(&e)
}

// keep keeps a copy of a packet until it is due, or until others have overtaken it.
func (x *faultyLane) keep(p *packet, due time.Duration, behind int) {
	if x.bytes+len(p.data) > maxLate {
		return // lost, as behind a full queue
	}
	if behind > 0 {
		behind++ // the caller counts this packet as well
	}
	c := &latePacket{packet: *p, due: due, behind: behind}
	c.header, c.data = slices.Clone(p.header), slices.Clone(p.data)
	if p.flow == &x.lane.flows.reply { // which the next answer uses
		f, t := *p.flow.Flow, *p.flow
		t.Flow, t.routes = &f, make([]route, len(p.flow.routes))
		c.flow = &t
	}
	x.bytes += len(c.data)
	x.insert(c)
}

// insert lets a packet wait.
func (x *faultyLane) insert(c *latePacket) {
	i, _ := slices.BinarySearchFunc(x.late, c.due, func(o *latePacket, t time.Duration) int {
		if o.due <= t {
			return -1
		}
		return 1
	})
	x.late = slices.Insert(x.late, i, c)
	x.lane.tasks.Lower(&x.entry, x.Deadline())
}

// overtaken counts a packet for those that wait behind others, and sends the ones that have waited enough.
func (x *faultyLane) overtaken(received bool) {
	for i := 0; i < len(x.late); i++ {
		c := x.late[i]
		if c.behind == 0 || received != (c.in != nil) {
			continue
		}
		if c.behind--; c.behind == 0 {
			x.late = slices.Delete(x.late, i, i+1)
			i--
			x.leave(c)
		}
	}
}

// leave sends a packet that has waited, on the route that leads to its destination now.
func (x *faultyLane) leave(c *latePacket) {
	x.bytes -= len(c.data)
	if c.in != nil {
		x.arrive(c)
		return
	}
	crc := [ib.ICRCLen]byte(c.data[len(c.data)-ib.ICRCLen:])
	wrong := ib.ICRC(c.data) != c.flow.CRC.Sum(c.id, c.data)
	x.again = true
	defer func() { x.again = false }()
	r := x.lane.flows.route(c.flow, c.dest)
	r.Stamp(&c.packet)
	if wrong { // a rule has corrupted it
		copy(c.data[len(c.data)-ib.ICRCLen:], crc[:])
	}
	r.Put(&c.packet)
}

// forget drops the packets of a flow that is about to close, or all if it is nil.
func (x *faultyLane) forget(f *txFlow) {
	if x == nil {
		return
	}
	x.late = slices.DeleteFunc(x.late, func(c *latePacket) bool {
		if f != nil && c.flow != f {
			return false
		}
		x.bytes -= len(c.data)
		return true
	})
}

// Next implements schedule.Task: it sends what is due.
func (x *faultyLane) Next(now time.Duration) (packets int, more bool) {
	x.ready = false
	for len(x.late) > 0 && x.late[0].due <= now && packets < link.MaxPackets {
		c := x.late[0]
		x.late = slices.Delete(x.late, 0, 1)
		x.leave(c)
		packets++
	}
	x.lane.tasks.Lower(&x.entry, x.Deadline())
	return packets, len(x.late) > 0 && x.late[0].due <= now
}

// Deadline implements schedule.Task.
func (x *faultyLane) Deadline() time.Duration {
	if x.ready || len(x.late) == 0 {
		return machine.Never
	}
	return x.late[0].due
}

// Expire implements schedule.Task.
func (x *faultyLane) Expire(time.Duration) {
	x.ready = true
	x.lane.tasks.Push(&x.entry)
}
