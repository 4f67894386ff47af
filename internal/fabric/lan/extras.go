package lan

import (
	"fmt"
	"math/rand/v2"

	"softrdma/internal/eventqueue"
	"softrdma/internal/fabric/dcb"
	"softrdma/internal/reason"
	"softrdma/internal/topology"
	"softrdma/internal/wire/ethernet"
)

// Extras are what commands add to a network that runs: test traffic, hosts that take nothing, faults of
// cables, agents of LLDP. A network has none before the first call of Network.Extras, and pays for none.
// Only networks of one part have them (see Config.Parts).
type Extras struct {
	net     *Network
	part    *part // the only one
	timer   int   // of the part, of the first chore
	chores  eventqueue.Queue[func()]
	random  *rand.Rand
	stalled map[int]uint8 // priorities whose frames a host does not take
	agents  map[*end]*speaker
	loads   []*load
	waiting map[int][]*load // of hosts whose queue is full
	first   uint32          // number of loads[0], which its frames have
}

// Extras returns the network's extras. It panics in a network of several parts, whose goroutines the
// extras do not know.
func (n *Network) Extras() *Extras {
	if len(n.parts) > 1 {
		panic(fmt.Sprintf("lan: extras of a network of %d parts: expected one", len(n.parts)))
	}
	if n.extras == nil {
		n.extras = &Extras{
			net: n, part: n.parts[0], timer: n.parts[0].due.Add(1), random: rand.New(rand.NewPCG(n.config.Seed, 1)),
			stalled: make(map[int]uint8), agents: make(map[*end]*speaker), waiting: make(map[int][]*load),
		}
	}
	return n.extras
}

// later calls a function at a time, in whole nanoseconds.
func (x *Extras) later(at dcb.Time, do func()) {
	x.chores.Push(at.DurationUp(), do)
	x.alarm()
}

func (x *Extras) alarm() {
	if at, ok := x.chores.Next(); ok {
		x.part.due.Set(x.timer, max(x.part.now, dcb.FromDuration(at)))
		return
	}
	x.part.due.Clear(x.timer)
}

// run calls the functions that are due.
func (x *Extras) run() {
	for {
		do, _, ok := x.chores.Pop(x.part.now.Duration())
		if !ok {
			break
		}
		do()
	}
	x.alarm()
}

// take handles a frame that ends at a node and is one of the extras' own. It reports whether that is so,
// and whether the frame is taken.
func (x *Extras) take(now dcb.Time, k *node, port int, f *dcb.Frame) (own, taken bool) {
	if k.host == nil {
		s := x.agents[&k.net.ends[int(k.first)+port-1]]
		own = s != nil && s.receive(now, f)
		return own, own
	}
	if x.stalled[k.index]&(1<<f.Priority) != 0 {
		return true, false
	}
	if isLoad(f) {
		x.arrived(f)
		return true, true
	}
	return false, false
}

// Stall makes a host take nothing of a set of priorities (bit i for priority i), until it is called
// without them. Lossless priorities then pause, back to the senders; of others, frames are dropped when
// the buffer of the host's port is full.
func (x *Extras) Stall(now dcb.Time, node int, priorities uint8) {
	x.stalled[node] = priorities
	x.net.Resume(now, node)
}

// Stalled returns the priorities whose frames a host does not take.
func (x *Extras) Stalled(node int) uint8 { return x.stalled[node] }

// A speaker is the agent of LLDP of a switch's port.
type speaker struct {
	extras *Extras
	end    *end
	agent  *dcb.Agent
	next   dcb.Time // when speak is called, Never without such a call
}

// SetAgent lets an agent speak LLDP at a port of a switch, over its cable; nil ends that.
func (x *Extras) SetAgent(now dcb.Time, at topology.End, a *dcb.Agent) {
	e := x.net.end(at)
	x.part.advance(now)
	delete(x.agents, e)
	if a == nil {
		return
	}
	s := &speaker{extras: x, end: e, agent: a, next: dcb.Never}
	x.agents[e] = s
	s.speak()
}

// Agent returns the agent of a port, nil if it has none.
func (x *Extras) Agent(at topology.End) *dcb.Agent {
	if s := x.agents[x.net.end(at)]; s != nil {
		return s.agent
	}
	return nil
}

// speak sends what the agent has to say, and sets when to ask it again.
func (s *speaker) speak() {
	x := s.extras
	if l := s.agent.Next(x.part.now); l != nil {
		f := x.part.pool.Frame()
		f.Data = l.Append(f.Data[:0])
		f.Data = append(f.Data, make([]byte, max(0, ethernet.MinLen-len(f.Data)))...)
		f.Parse()
		f.Priority = ethernet.Priorities - 1
		s.end.node.sw.Send(x.part.now, s.end.at.Port, f)
	}
	if at := max(s.agent.Deadline(), x.part.now+dcb.Nanosecond); at < s.next {
		s.next = at
		x.later(at, func() {
			if s.next == at && x.agents[s.end] == s {
				s.next = dcb.Never
				s.speak()
			}
		})
	}
}

// receive takes a frame that ends at the switch, and reports whether it is one of LLDP.
func (s *speaker) receive(now dcb.Time, f *dcb.Frame) bool {
	l := new(ethernet.LLDP)
	if f.Dst != dcb.AddressOf(ethernet.NearestMAC) || l.Parse(f.Data).Reason != reason.None {
		return false
	}
	s.agent.Receive(now, l)
	s.extras.part.pool.Put(f)
	s.speak()
	return true
}
