// Package hosts puts hosts with softrdma's reliable connections on an Ethernet of
// internal/fabric/lan. The transports are the machines of internal/rc that devices have, with their
// congestion controls, notifications and recovery. They are driven by the network's event queue, so
// there are no goroutines, no devices and no sockets.
//
//	Post -> queue pair -> turn on the host's port -> lan.Network -> queue pair -> Handler
//	             ^ timer of the network
//
// A host's queue pairs take turns, a packet each, while its port has room. Payloads do not travel:
// a frame has the headers of its packet and a length. Computing takes no time.
//
// The package does no I/O and reads no clock. Hosts belong to one goroutine at a time.
package hosts

import (
	"math/rand/v2"
	"net/netip"
	"time"

	"softrdma/internal/congestion"
	"softrdma/internal/fabric/dcb"
	"softrdma/internal/fabric/lan"
	"softrdma/internal/machine"
	"softrdma/internal/memory"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/rc"
	"softrdma/internal/reason"
	"softrdma/internal/topology"
	"softrdma/internal/trace"
	"softrdma/internal/wire/ethernet"
	"softrdma/internal/wire/ib"
)

// A Sender is how connections send.
type Sender struct {
	Control  congestion.Kind
	Tuning   *congestion.Tuning // of the control; nil for its own
	GoBackN  bool               // otherwise lost packets alone are sent again
	Window   int                // bytes in flight; DefaultWindow if 0
	MTU      int                // bytes of payload of a full packet, as in qp.Attr; DefaultMTU if 0
	Timeout  uint8              // as in qp.Attr; DefaultTimeout if 0
	Priority uint8              // of the network
}

// Defaults of a sender: those of softrdma's devices and commands.
const (
	DefaultWindow  = 1 << 20
	DefaultMTU     = 1024
	DefaultTimeout = 14 // 67 ms
)

// A Handler gets what happens to messages.
type Handler interface {
	// Sent tells that a message has been acknowledged.
	Sent(now dcb.Time, c *Conn, id uint64)
	// Received tells that all of a message has arrived.
	Received(now dcb.Time, c *Conn, id uint32)
	// Failed tells that a connection has failed. Its messages are lost.
	Failed(now dcb.Time, c *Conn, d reason.Detail)
	// Alarm tells that a timer of Hosts.Timer is due.
	Alarm(now dcb.Time, timer int)
}

// A Config is what hosts are made with.
type Config struct {
	// Network is the network, without Deliver, Writable, Dropped and Expired.
	Network lan.Config
	Handler Handler
}

// Hosts are the hosts of a network.
type Hosts struct {
	net     *lan.Network
	handler Handler
	random  *rand.Rand
	hosts   []host // by node
	nodes   []int  // that are hosts
	packets packets

	memory *memory.Table
	region *memory.Region
	store  *rc.Store

	timers []*end // by timer; nil for those of the handler
	spare  []int
	qpn    uint32
	done   []done

	in  machine.In
	out machine.Out

	traffic  trace.Traffic
	repeated uint64
	reasons  map[reason.Reason]uint64
	drops    map[reason.Reason]uint64
}

// A host is the port of a host, and the queue pairs that may have something to send.
type host struct {
	address netip.Addr
	ready   [ethernet.Priorities]turns
	halted  bool // takes nothing
}

// protection is the protection domain of all queue pairs. They share one region as well.
const protection = 1

// New makes a network and its hosts.
func New(c Config) (*Hosts, error) {
	seed := c.Network.Seed
	h := &Hosts{
		handler: c.Handler, random: rand.New(rand.NewPCG(seed, dcb.Mix(seed+1))), memory: memory.NewTable(),
		store: rc.NewStore(rc.DefaultStore), reasons: map[reason.Reason]uint64{}, drops: map[reason.Reason]uint64{}, qpn: firstQPN,
	}
	h.memory.Random = h.random.Uint32
	var err error
	if h.region, err = h.memory.RegisterVoid(protection, machine.MaxMessage, 0, qp.LocalWrite|qp.RemoteWrite); err != nil {
		return nil, err
	}
	c.Network.Deliver, c.Network.Writable, c.Network.Dropped, c.Network.Expired = h.deliver, h.writable, h.dropped, h.expired
	h.net = lan.New(c.Network)
	h.hosts = make([]host, len(c.Network.Fabric.Nodes))
	for i := range h.hosts {
		if c.Network.Fabric.Nodes[i].Kind == topology.Switch {
			continue
		}
		h.nodes = append(h.nodes, i)
		h.hosts[i].address = address(h.net.IP(i))
	}
	return h, nil
}

// firstQPN is the first number after those of IBTA 3.5.10.
const firstQPN = 2

// address returns an IPv4 address of the network.
func address(ip dcb.IP) netip.Addr {
	a := uint32(ip.Lo)
	return netip.AddrFrom4([4]byte{byte(a >> 24), byte(a >> 16), byte(a >> 8), byte(a)})
}

// Network returns the network.
func (h *Hosts) Network() *lan.Network { return h.net }

// Nodes returns the nodes that are hosts.
func (h *Hosts) Nodes() []int { return h.nodes }

// Traffic returns what all hosts have sent and received.
func (h *Hosts) Traffic() trace.Traffic { return h.traffic }

// Repeated returns the bytes of messages that were sent again.
func (h *Hosts) Repeated() uint64 { return h.repeated }

// Reasons returns how often queue pairs have named a reason.
func (h *Hosts) Reasons() map[reason.Reason]uint64 { return h.reasons }

// Drops returns the number of frames that the network has dropped, by reason.
func (h *Hosts) Drops() map[reason.Reason]uint64 { return h.drops }

// Timer makes a timer of the handler.
func (h *Hosts) Timer() int { return h.timer(nil) }

// SetTimer sets when the handler's Alarm is called for a timer; dcb.Never is never.
func (h *Hosts) SetTimer(timer int, at dcb.Time) { h.net.SetTimer(timer, at) }

func (h *Hosts) timer(e *end) int {
	if n := len(h.spare); n > 0 {
		t := h.spare[n-1]
		h.spare = h.spare[:n-1]
		h.timers[t] = e
		return t
	}
	h.timers = append(h.timers, e)
	return h.net.Timers(1)
}

// clock is the time of queue pairs.
func clock(now dcb.Time) time.Duration { return now.Duration() }

// expired is called when a timer is due.
func (h *Hosts) expired(now dcb.Time, timer int) {
	e := h.timers[timer]
	if e == nil {
		h.handler.Alarm(now, timer)
		h.report(now)
		return
	}
	e.at = dcb.Never
	if e.q.Deadline() <= clock(now) {
		e.q.Expire(clock(now))
		h.continueWith(now, e)
		return
	}
	e.arm(now)
}

// deliver hands a frame over to its queue pair.
func (h *Hosts) deliver(now dcb.Time, at topology.End, f *dcb.Frame) bool {
	if h.hosts[at.Node].halted {
		return false
	}
	p := h.packets.at(f.Cookie)
	if e := p.to; !e.closed && e.node == at.Node {
		in := &h.in
		in.Packet, in.Payload = p.Packet, p.payload()
		in.Src, in.Dst = e.peer.local, e.local
		in.TOS, in.TTL = f.DSCP<<2|f.ECN, f.Hops
		in.Hops = nil
		if f.Telemetry != nil {
			in.Hops = f.Telemetry.Hops[:f.Telemetry.Count]
		}
		t := clock(now)
		if e.q.Continue(t, in) {
			machine.Continued(&h.traffic, &e.port, in)
		} else {
			machine.Deliver(&h.traffic, &e.port, t, e.q, in)
		}
		h.continueWith(now, e)
	}
	h.packets.put(f.Cookie)
	h.net.Pool().Put(f)
	return true
}

// continueWith lets a queue pair send after a call of it.
func (h *Hosts) continueWith(now dcb.Time, e *end) {
	e.enqueue()
	e.arm(now)
	h.pump(now, e.node)
	h.report(now)
}

// Halt lets a host take nothing that arrives, until Resume. Its port then pauses without an end.
func (h *Hosts) Halt(node int) { h.hosts[node].halted = true }

// Resume ends Halt.
func (h *Hosts) Resume(now dcb.Time, node int) {
	h.hosts[node].halted = false
	h.net.Resume(now, node)
}

// writable is called when the port of a host has room again.
func (h *Hosts) writable(now dcb.Time, node int) {
	h.pump(now, node)
	h.report(now)
}

func (h *Hosts) dropped(_ dcb.Time, _ topology.End, f *dcb.Frame, d reason.Detail) {
	h.drops[d.Reason]++
	if f.Cookie != 0 {
		h.packets.put(f.Cookie)
	}
}

// pump sends packets of a host's queue pairs in turn, while the port has room.
func (h *Hosts) pump(now dcb.Time, node int) {
	port := h.net.Host(node)
	x := &h.hosts[node]
	for i := range x.ready {
		for r := &x.ready[i]; r.first != nil && port.Room(uint8(i)); {
			if e := r.pop(); h.send(now, e) {
				e.enqueue()
			}
		}
	}
}

// send sends the next packet of a queue pair, and reports whether there was one.
func (h *Hosts) send(now dcb.Time, e *end) bool {
	if e.closed {
		return false
	}
	sent := e.q.Next(clock(now), &h.out)
	e.arm(now)
	if !sent {
		return false
	}
	out := &h.out
	h.traffic.SentPackets++
	f := h.net.Pool().Frame()
	f.Cookie = h.packets.take(out, e.peer)
	h.net.Address(f, e.node, e.peer.node, e.local.Port())
	f.Len = int32(FrameLen(out.Opcode, out.Len))
	f.Priority, f.DSCP, f.ECN = e.priority, e.priority<<3, dcb.NotECT
	if out.Opcode.Info().Kind == ib.KindWrite {
		h.count(e, out)
	}
	if out.Telemetry {
		f.Telemetry = h.packets.telemetry(f.Cookie)
	}
	if out.Markable {
		f.ECN = dcb.ECT0
	}
	h.net.Send(now, e.node, f)
	out.Markable = false
	return true
}

// count counts a packet of a message.
func (h *Hosts) count(e *end, out *machine.Out) {
	h.traffic.Sent += uint64(out.Len)
	if out.PSN.After(e.high) {
		e.high = out.PSN
	} else {
		h.repeated += uint64(out.Len)
	}
}

// report tells the handler what has been completed. It may post, connect and close.
func (h *Hosts) report(now dcb.Time) {
	for i := 0; i < len(h.done); i++ {
		switch d := h.done[i]; {
		case d.end.closed:
		case d.status != queue.Success:
			h.handler.Failed(now, d.end.conn, d.why)
		case d.received:
			h.handler.Received(now, d.end.conn, uint32(d.id))
		default:
			h.handler.Sent(now, d.end.conn, d.id)
		}
	}
	h.done = h.done[:0]
}

// Event implements machine.Host.
func (h *Hosts) Event(*machine.Port, machine.Event, reason.Detail) {}

// Refuse implements machine.Host.
func (h *Hosts) Refuse(_ *machine.Port, d reason.Detail) { h.reasons[d.Reason]++ }

// StateChanged implements machine.Host.
func (h *Hosts) StateChanged(_ *machine.Port, _ qp.State, d reason.Detail) {
	if d.Reason != reason.None {
		h.reasons[d.Reason]++
	}
}
