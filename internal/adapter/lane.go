package adapter

import (
	"sync/atomic"

	"softrdma/internal/adapter/drive"
	"softrdma/internal/adapter/gather"
	"softrdma/internal/adapter/groups"
	"softrdma/internal/adapter/gsi"
	"softrdma/internal/adapter/hostpath"
	"softrdma/internal/adapter/hostrun"
	"softrdma/internal/adapter/partition"
	"softrdma/internal/adapter/schedule"
	"softrdma/internal/adapter/share"
	"softrdma/internal/adapter/stream"
	"softrdma/internal/adapter/transports"
	"softrdma/internal/adapter/unreachable"
	"softrdma/internal/frame"
	"softrdma/internal/link"
	"softrdma/internal/machine"
	"softrdma/internal/memory"
	"softrdma/internal/qp"
	"softrdma/internal/trace"
)

// A lane owns a link and the queue pairs on it. It is a drive.Port: its driver is
// its lock, whose holder owns everything but the fields below "any goroutine".
type lane struct {
	drive.Driver
	dev   *Device
	index int // among the device's
	link  link.Waiter

	// What carries packets; nil and zero where the link carries streams.
	net  frame.Network
	can  frame.Capabilities // of net
	host hostpath.Lane      // peers on this host

	// Where packets go.
	network network
	process process
	hostmem hostItem
	wired   route  // network, with the trace in front of it if there is one
	seen    uint32 // changes of the loopback when routes were chosen last
	built   packet // see whole

	streams *stream.Set // nil where the link carries packets
	port    drive.Port  // the lane as its driver sees it

	qps     map[uint32]*QP
	gsi     *QP // queue pair 1, which is not in qps; nil in other lanes than its own
	makers  transports.Makers
	groups  groups.Table[*QP]
	pkeys   partition.Table // of the port
	tasks   schedule.Queue
	flows   map[flowKey]*txFlow
	sweeper sweeper
	reply   txFlow // of the answer that is being sent, see replyFlow
	shares  share.Table
	sent    []*QP   // unacknowledged queue pairs whose packets wait in network
	notify  laneSet // lanes that packets were left for
	storing []*QP   // whose stores to other processes may wait
	losses  []memory.Loss
	closed  bool // the link is: nothing more is received or sent

	rx      link.Rx
	in      machine.In
	out     machine.Out
	part    machine.Out   // of a train
	from    *frame.Source // of the batch
	header  []byte        // the frame's, of the packet
	watch   *trace.Stream // sees packets; nil without a listener
	putGRH  machine.GRHWriter
	drained bool // the link had nothing to receive when last asked
	rounds  uint // since deadlines were looked at
	asked   bool // a peer waits for a response that may not have been sent
	gather  gather.Counts
	fast    fastPath
	traffic machine.Traffic
	run     hostrun.Run[*hostpath.Path, *QP]
	reports unreachable.Reader

	// any goroutine
	left      remainder
	overflows atomic.Bool // a completion queue overflowed
}

func newLane(d *Device, index int, net frame.Network) *lane {
	x := &lane{
		dev: d, index: index, makers: transports.NewMakers(len(d.lanes)),
		qps: make(map[uint32]*QP), flows: make(map[flowKey]*txFlow),
		from: new(frame.Source), pkeys: d.cfg.PKeys,
	}
	x.network.lane, x.process.lane = x, x
	x.shares.Init(&x.tasks, d.clock)
	x.sweeper.init(x)
	if net != nil {
		x.net, x.can, x.link = net, net.Capabilities(), net.Link()
		x.network.init(x, net.Link())
		x.wired = &x.network
		x.reports = unreachable.NewReader(x.network.caps.Reporter)
		x.putGRH = func(b []byte, in *machine.In, length int) {
			net.PutGRH(b, in.Src, in.Dst, frame.Class{TrafficClass: in.TOS, HopLimit: in.TTL}, length)
		}
	} else {
		x.link = d.cfg.Streams
		x.streams = stream.New(stream.Config{
			Host: (*streamHost)(x), Link: d.cfg.Streams, Tasks: &x.tasks, NoCRC: d.cfg.NoCRC, Markers: d.cfg.Markers,
		})
	}
	x.port = x
	if x.streams != nil {
		x.port = streamPort{x}
	}
	x.Driver.Init(drive.Config{Port: x.port, Waiter: x.initHost(), Clock: d.clock, Spin: d.cfg.Spin, Manual: d.cfg.Manual, Kernel: x.network.caps.Watcher != nil})
	if i, ok := d.cfg.Share.Lane(gsi.QPN); ok && i == index {
		x.gsi = newGSI(x)
	}
	return x
}

// settle sends what is owed now. Poll postpones acknowledges. Before a queue pair is
// destroyed they must be sent: without them the peer's last requests would fail although
// they were executed and completed here.
func (l *lane) settle() {
	if l.Stopping() {
		return
	}
	for range l.tasks.Ready()/(transmitBudget/maxBurst) + 1 {
		if !l.Transmit(l.dev.clock()) {
			return
		}
	}
}

// stop ends the lane's worker.
func (l *lane) stop() {
	l.Lock()
	l.settle()
	l.Unlock()
	l.Driver.Stop()
}

// close ends the lane, which was stopped.
func (l *lane) close() {
	l.Lock()
	defer l.Unlock()
	for _, q := range l.qps {
		q.publishState(qp.Reset) // see StateHint
	}
	if l.streams != nil {
		l.streams.Close(l.dev.clock())
	}
	l.host.Revoke()
	l.closed = true
	for _, f := range l.flows {
		if !f.offline {
			l.net.Close(f.Flow)
		}
	}
	clear(l.flows)
}
