// Package hosts puts hosts with softrdma's reliable connections on an Ethernet of
// internal/fabric/lan. The transports are the machines of internal/rc that devices have, with their
// congestion controls, notifications and recovery. They are driven by the network's event queue, so
// there are no goroutines, no devices and no sockets.
//
//	Post -> queue pair -> turn on the host's port -> lan.Network -> queue pair -> Handler
//	             ^ timer of the host
//
// A host's queue pairs take turns, a packet each, while its port has room. Payloads do not travel:
// a frame has the headers of its packet and a length. Computing takes no time.
//
// Several goroutines work on the parts of the network (see package lan). A host, its queue pairs and
// what they report belong to the part of the host. Connections are made between steps of time, ahead of
// their first message.
//
// The package does no I/O and reads no clock.
package hosts

import (
	"math"
	"math/rand/v2"
	"net/netip"
	"time"

	"softrdma/internal/congestion"
	"softrdma/internal/eventqueue"
	"softrdma/internal/fabric/dcb"
	"softrdma/internal/fabric/lan"
	"softrdma/internal/reason"
	"softrdma/internal/topology"
	"softrdma/internal/trace"
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

// A Handler gets what happens to messages. If the network has several parts, goroutines call it at the
// same time, but not for the same host.
type Handler interface {
	// Sent tells the sender that a message has been acknowledged.
	Sent(now dcb.Time, c *Conn, id uint64)
	// Received tells the receiver that all of a message has arrived.
	Received(now dcb.Time, c *Conn, id uint32)
	// Failed tells the sender that a connection has failed. Its messages are lost.
	Failed(now dcb.Time, c *Conn, d reason.Detail)
	// Alarm tells that a timer of Hosts.Timer is due. It is called by the goroutine of Run, in the order
	// of time and up to a step ahead of it. It alone may call Connect and SetTimer during Run.
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
	hosts   []*host // by node; nil for a switch
	nodes   []int   // that are hosts
	parts   []*part
	alarms  eventqueue.Deadlines[dcb.Time]
	step    dcb.Time // end of the current or last step
	within  bool     // a step
	qpn     uint32
}

// protection is the protection domain of all queue pairs. Those of a part share one region as well.
const protection = 1

// New makes a network and its hosts.
func New(c Config) (*Hosts, error) {
	seed := c.Network.Seed
	h := &Hosts{handler: c.Handler, qpn: firstQPN}
	c.Network.Deliver, c.Network.Writable, c.Network.Dropped, c.Network.Expired = h.deliver, h.writable, h.dropped, h.expired
	h.net = lan.New(c.Network)
	for range h.net.Parts() {
		h.random = rand.New(rand.NewPCG(seed, dcb.Mix(seed+1))) // the same for each part, and then for connections
		p, err := newPart(h, h.random)
		if err != nil {
			return nil, err
		}
		h.parts = append(h.parts, p)
	}
	h.hosts = make([]*host, len(c.Network.Fabric.Nodes))
	for i := range h.hosts {
		if c.Network.Fabric.Nodes[i].Kind == topology.Switch {
			continue
		}
		h.nodes = append(h.nodes, i)
		h.hosts[i] = &host{part: h.parts[h.net.Part(i)], node: i, port: h.net.Host(i), address: address(h.net.IP(i)), alarm: dcb.Never}
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
func (h *Hosts) Traffic() (t trace.Traffic) {
	for _, p := range h.parts {
		t.Add(p.traffic)
	}
	return t
}

// Repeated returns the bytes of messages that were sent again.
func (h *Hosts) Repeated() (n uint64) {
	for _, p := range h.parts {
		n += p.repeated
	}
	return n
}

// Reasons returns how often queue pairs have named a reason.
func (h *Hosts) Reasons() map[reason.Reason]uint64 {
	return h.sum(func(p *part) map[reason.Reason]uint64 { return p.reasons })
}

// Drops returns the number of frames that the network has dropped, by reason.
func (h *Hosts) Drops() map[reason.Reason]uint64 {
	return h.sum(func(p *part) map[reason.Reason]uint64 { return p.drops })
}

func (h *Hosts) sum(of func(*part) map[reason.Reason]uint64) map[reason.Reason]uint64 {
	all := map[reason.Reason]uint64{}
	for _, p := range h.parts {
		for r, n := range of(p) {
			all[r] += n
		}
	}
	return all
}

// Timer makes a timer of the handler.
func (h *Hosts) Timer() int { return h.alarms.Add(1) }

// SetTimer sets when the handler's Alarm is called for a timer; dcb.Never is never.
func (h *Hosts) SetTimer(timer int, at dcb.Time) {
	if at == dcb.Never {
		h.alarms.Clear(timer)
		return
	}
	h.alarms.Set(timer, at)
}

// stepTime is how far alarms are ahead. A step ends when this time has passed since its first event.
const stepTime = 5 * dcb.Microsecond

// Run lets everything happen that is due until a time.
func (h *Hosts) Run(until dcb.Time) {
	for !h.RunSome(until, math.MaxInt) {
	}
}

// RunSome is Run with a bound on the number of events. It reports whether all has happened that is due.
func (h *Hosts) RunSome(until dcb.Time, events int) bool {
	for h.within || h.net.Now() < until || until == 0 {
		if !h.within {
			h.begin(h.net.Now(), until)
		}
		before := h.net.Events()
		if !h.net.RunSome(h.step, events) {
			return false
		}
		events -= int(h.net.Events() - before)
		h.within = false
		h.settle()
		if h.step >= until {
			break
		}
	}
	return true
}

// begin begins a step: it calls the alarms that are due in it.
func (h *Hosts) begin(now, until dcb.Time) {
	first := h.net.Deadline()
	if _, at, ok := h.alarms.Next(); ok {
		first = min(first, at)
	}
	h.step, h.within = until, true
	if first < until-stepTime {
		h.step = max(now, first) + stepTime
	}
	for {
		timer, at, ok := h.alarms.Next()
		if !ok || at > h.step {
			return
		}
		h.alarms.Clear(timer)
		h.handler.Alarm(at, timer)
	}
}

// settle closes the receivers' ends of connections that have been closed.
func (h *Hosts) settle() {
	for _, p := range h.parts {
		for _, e := range p.closing {
			e.close(h.net.Now())
		}
		p.closing = p.closing[:0]
	}
}

// clock is the time of queue pairs.
func clock(now dcb.Time) time.Duration { return now.Duration() }

// expired is called when the timer of a host is due.
func (h *Hosts) expired(now dcb.Time, node int) {
	x := h.hosts[node]
	x.alarm = dcb.Never
	for {
		timer, at, ok := x.due.Next()
		if !ok || at > now {
			break
		}
		x.due.Clear(timer)
		e := x.ends[timer]
		if e == nil { // of Resume
			x.spare = append(x.spare, timer)
			h.net.Resume(now, node)
			continue
		}
		e.at = dcb.Never
		switch {
		case !e.open:
			e.open = true
		case e.q.Deadline() <= clock(now):
			e.q.Expire(clock(now))
		default:
			e.arm(now)
			continue
		}
		e.enqueue()
		e.arm(now)
	}
	x.watch()
	x.part.serve(now, x)
}

// deliver hands a frame over to its queue pair.
func (h *Hosts) deliver(now dcb.Time, at topology.End, f *dcb.Frame) bool {
	x := h.hosts[at.Node]
	if now >= x.halted && now < x.resumed {
		return false
	}
	x.part.deliver(now, x, f)
	h.net.PoolOf(at.Node).Put(f)
	return true
}

// Halt lets a host take nothing that arrives from a time on, until Resume. Its port then pauses without
// an end. It is called where Connect may be.
func (h *Hosts) Halt(now dcb.Time, node int) {
	x := h.hosts[node]
	x.halted, x.resumed = now, dcb.Never
}

// Resume ends Halt at a time.
func (h *Hosts) Resume(now dcb.Time, node int) {
	x := h.hosts[node]
	x.resumed = now
	x.due.Set(x.timer(nil), now)
	x.watch()
}

// writable is called when the port of a host has room again.
func (h *Hosts) writable(now dcb.Time, node int) {
	x := h.hosts[node]
	x.part.serve(now, x)
}

func (h *Hosts) dropped(_ dcb.Time, at topology.End, f *dcb.Frame, d reason.Detail) {
	h.parts[h.net.Part(at.Node)].drops[d.Reason]++
}
