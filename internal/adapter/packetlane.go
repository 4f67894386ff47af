package adapter

import (
	"net/netip"
	"time"

	"softrdma/internal/adapter/gsi"
	"softrdma/internal/adapter/hostpath"
	"softrdma/internal/adapter/partition"
	"softrdma/internal/adapter/unreachable"
	"softrdma/internal/frame"
	"softrdma/internal/link"
	"softrdma/internal/machine"
	"softrdma/internal/memory"
	"softrdma/internal/trace"
	"softrdma/internal/wire/ib/own"
)

// A packetLane is a lane whose link carries packets.
type packetLane struct {
	lane
	net frame.Network
	can frame.Capabilities // of net

	// Where packets go.
	flows    flowTable
	network  network
	process  process
	host     hostpath.Lane // peers on this host
	hostItem hostItem
	out      machine.Out
	part     machine.Out // of a train
	built    packet      // see whole
	sent     []*QP       // unacknowledged queue pairs whose packets wait in network

	gsi    *QP // queue pair 1, which is not in qps; nil in other lanes than its own
	makers makers
	groups map[netip.Addr][]*QP // members of multicast groups
	pkeys  partition.Table      // of the port

	// What has arrived.
	rx      link.Rx
	in      machine.In
	hops    [own.MaxHops]own.Hop // of in
	from    *frame.Source        // of the batch
	header  []byte               // the frame's, of the packet
	putGRH  machine.GRHWriter
	fast    fastPath
	run     hostRun
	notify  laneSet // lanes that packets were left for
	own     trace.Traffic
	reports unreachable.Reader
	taken   inbox // out of inbox

	faults *faultyLane // nil without rules for packets

	inbox inbox // packets that came to other lanes, from any goroutine; the driver's doorbell guards it
}

var _ carrier = (*packetLane)(nil)

func newPacketLane(d *Device, index int, net frame.Network) *packetLane {
	l := &packetLane{
		lane: lane{dev: d, index: index, link: net.Link()},
		net:  net, can: net.Capabilities(), from: new(frame.Source),
		makers: newMakers(len(d.lanes)), pkeys: d.cfg.PKeys, groups: make(map[netip.Addr][]*QP),
	}
	l.traffic = d.cfg.traffic(&l.own)
	l.network.init(l, net.Link())
	l.process.lane = l
	l.flows.init(l)
	l.reports = unreachable.NewReader(l.network.caps.Reporter)
	l.putGRH = func(b []byte, in *machine.In, length int) {
		net.PutGRH(b, in.Src, in.Dst, frame.Class{TrafficClass: in.TOS, HopLimit: in.TTL}, length)
	}
	l.init(l, l.initHost(), l.network.caps.Watcher != nil)
	if i, ok := d.share.Lane(gsi.QPN); ok && i == index {
		l.gsi = newGSI(l)
	}
	return l
}

// machine implements carrier.
func (l *packetLane) machine(q *QP) machine.Machine {
	q.packets, q.PutGRH, q.Traffic = l, l.putGRH, l.traffic
	return idle{q}
}

// turn implements carrier.
func (l *packetLane) turn(now time.Duration, q *QP) (packets int, more bool) {
	packets, more = l.burst(now, q)
	if q.can.Sender != nil {
		l.sent = append(l.sent, q) // its deadline follows Sent
	}
	return packets, more
}

// flush implements carrier.
func (l *packetLane) flush() {
	l.network.flush()
	for i, q := range l.sent {
		q.can.Sender.Sent()
		l.tasks.Lower(&q.entry, q.m.Deadline())
		l.sent[i] = nil
	}
	l.sent = l.sent[:0]
	l.process.release()
	l.host.Flush()
}

// watchChanged implements carrier.
func (l *packetLane) watchChanged() {
	l.flows.reroute()
	l.host.ShowPackets(l.watch != nil || l.faults.receives())
}

// end implements carrier.
func (l *packetLane) end(r *memory.Region) {
	if r == nil {
		l.host.RevokeWindows()
		return
	}
	l.host.RevokeRegion(r)
	l.host.Withdraw(r)
}

// endBindings implements carrier. It does not wait for the locks of other lanes.
func (l *packetLane) endBindings() {
	if !l.host.Invalidated(l.dev.Memory.Invalidations()) {
		return
	}
	for _, o := range l.dev.packets {
		if o != l {
			o.host.RevokeWindowsOutside()
		}
	}
}

// close implements carrier.
func (l *packetLane) close(time.Duration) {
	l.host.Revoke()
	l.flows.closeAll()
}

// Serve implements drive.Port: what was handed over becomes ready, or is received.
func (l *packetLane) Serve() bool {
	if !l.Bell.Rung() {
		return false
	}
	l.Bell.Lock()
	l.takeBells()
	l.inbox, l.taken = l.taken, l.inbox
	l.Bell.Answer()
	l.Bell.Unlock()
	l.receiveForwarded()
	return true
}

// Receive implements drive.Port.
func (l *packetLane) Receive(now time.Duration) (after time.Duration, ok bool) {
	if l.closed {
		return now, false
	}
	l.gather.polledAgain()
	some := false
	if !l.host.Idle() {
		l.endBindings() // peers that lost references ask again
		some = l.host.Receive(now)
		l.endRun()
		if some && !l.near.Load() {
			l.near.Store(true)
		}
		if !l.host.AskLink(now) {
			l.drained = !some
			return now, some
		}
	}
	l.rx.Sparse = l.dev.headed.Load() == 0 && l.watch == nil
	ok, err := l.network.link.Receive(&l.rx)
	if l.drained = err != nil || !ok; l.drained {
		return now, some
	}
	if l.near.Load() {
		l.near.Store(false)
	}
	now = l.dev.clock()
	l.Received(len(l.rx.Data))
	l.receive(now, &l.rx)
	return now, true
}

// Act implements drive.Port.
func (l *packetLane) Act(now time.Duration) bool {
	if l.closed {
		return false
	}
	if l.reports.Pending() {
		l.takeReports(now)
	}
	l.expire(now)
	l.network.resume()
	return l.Transmit(now)
}

// Next implements drive.Port.
func (l *packetLane) Next() time.Duration {
	if !l.closed && l.reports.Pending() {
		return 0
	}
	return l.nextDue()
}
