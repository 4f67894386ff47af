package lan

import (
	"testing"

	"softrdma/internal/fabric/dcb"
	"softrdma/internal/reason"
	"softrdma/internal/topology"
	"softrdma/internal/wire/ethernet"
)

// loaded is a network of a shape whose hosts take nothing but loads.
func loaded(t *testing.T, shape string) *Network {
	return New(Config{Fabric: generate(t, shape), Link: lossless(), Deliver: func(dcb.Time, topology.End, *dcb.Frame) bool {
		t.Error("a frame of a load reached a host")
		return false
	}})
}

// hostsOf returns the nodes that are hosts.
func hostsOf(n *Network) (all []int) {
	for i := range n.nodes {
		if n.nodes[i].host != nil {
			all = append(all, i)
		}
	}
	return all
}

func TestLoadsArriveAtTheirRate(t *testing.T) {
	n := loaded(t, "star:3")
	h := hostsOf(n)
	x := n.Extras()
	x.Generate(0, Load{From: h[0], To: h[1], Priority: 3, SourcePort: 1, Size: 1000, Packets: 5000})
	x.Generate(0, Load{From: h[1], To: h[2], Size: 1000, Packets: 100, Every: 10 * dcb.Microsecond})
	n.Run(505 * dcb.Microsecond)
	if l := x.Loads(); l[0].Sent != 5000 || l[0].Arrived != 5000 || l[1].Sent != 51 || l[1].Arrived != 51 {
		t.Errorf("%+v", l)
	}
	x.Generate(n.Now(), Load{From: h[0], To: h[1], Size: 1000, Packets: 100})
	x.StopLoads() // while frames are on their way
	n.Run(dcb.Second)
	if l := x.Loads(); len(l) != 0 || n.Deadline() != dcb.Never || n.Pool().Used() != 0 {
		t.Errorf("%+v, next event %v, %d frames in use", l, n.Deadline(), n.Pool().Used())
	}
}

// A host that takes nothing pauses back to the sender, and loses nothing of a lossless priority.
func TestStalledHostPausesBackToTheSender(t *testing.T) {
	n := loaded(t, "ring:3")
	h := hostsOf(n)
	x := n.Extras()
	x.Stall(0, h[1], 1<<3)
	x.Generate(0, Load{From: h[0], To: h[1], Priority: 3, Size: 8000 / 8, Packets: 30000})
	n.Run(10 * dcb.Millisecond)
	if l := x.Loads()[0]; l.Arrived != 0 || l.Sent == l.Packets || n.Host(h[0]).Halted() != 1<<3 {
		t.Errorf("%+v, paused %#x", l, n.Host(h[0]).Halted())
	}
	for _, w := range n.Standstill(dcb.Millisecond).Waits {
		if w.Cause != "program" {
			t.Errorf("%+v", w)
		}
	}
	x.Stall(n.Now(), h[1], 0)
	n.Run(dcb.Second)
	if l := x.Loads()[0]; l.Arrived != l.Packets || x.Stalled(h[1]) != 0 {
		t.Errorf("%+v", l)
	}
}

// A caller that is late does not make pauses end before the frames that repeat them arrive.
func TestLateCallersLetPausesLast(t *testing.T) {
	dropped := 0
	n := New(Config{Fabric: generate(t, "star:3"), Link: lossless(), Dropped: func(dcb.Time, topology.End, *dcb.Frame, reason.Detail) { dropped++ }})
	h := hostsOf(n)
	n.Extras().Stall(0, h[1], 1<<3)
	n.Extras().Generate(0, Load{From: h[0], To: h[1], Priority: 3, Size: 1000, Packets: 20000})
	n.RunAhead(dcb.Millisecond)
	for range 200 {
		late := n.Now() + 5*dcb.Millisecond
		f := n.Pool().Frame()
		n.Address(f, h[2], h[1], 7)
		f.Priority, f.DSCP, f.Len = 3, 3<<3, 1000
		n.Send(late, h[2], f)
		n.RunAhead(late + 100*dcb.Microsecond)
	}
	if dropped > 0 {
		t.Errorf("%d frames of a lossless priority dropped", dropped)
	}
}

// The port of a host knows of a frame when all of it has arrived, and has room for those that follow then.
func TestStalledHostHasRoomForFramesOfAllLengths(t *testing.T) {
	for size := 100; size <= 9000-28; size += 371 {
		link := lossless()
		link.Port.MTU = 9018
		dropped := 0
		n := New(Config{Fabric: generate(t, "star:2"), Link: link, Dropped: func(dcb.Time, topology.End, *dcb.Frame, reason.Detail) { dropped++ }})
		h := hostsOf(n)
		n.Extras().Stall(0, h[1], 1<<3)
		n.Extras().Generate(0, Load{From: h[0], To: h[1], Priority: 3, Size: size, Packets: 2000})
		n.Run(10 * dcb.Millisecond)
		if dropped > 0 || n.Host(h[1]).Stopped() != 1<<3 {
			t.Errorf("%d bytes: %d dropped, paused %#x", size, dropped, n.Host(h[1]).Stopped())
		}
	}
}

// A judgement is a Judge that gives each frame the same fate.
type judgement Fate

func (j judgement) Judge(dcb.Time, *dcb.Frame) Fate { return Fate(j) }

func TestFaultsOfACable(t *testing.T) {
	const packets = 2000
	for _, c := range []struct {
		name    string
		faults  Faults
		arrived [2]int // least, most
	}{
		{"bit errors", Faults{BitErrors: 1e-5}, [2]int{packets * 88 / 100, packets * 95 / 100}}, // 1,046 bytes: 8 % fail
		{"drop", Faults{Judge: judgement{Drop: true}}, [2]int{0, 0}},
		{"duplicate", Faults{Judge: judgement{Duplicate: true}}, [2]int{2 * packets, 2 * packets}},
		{"delay", Faults{Judge: judgement{Delay: dcb.Millisecond}}, [2]int{packets, packets}},
	} {
		n := loaded(t, "star:2")
		h := hostsOf(n)
		x := n.Extras()
		at := topology.End{Node: h[1], Port: 1}
		x.SetFaults(at, &c.faults)
		x.Generate(0, Load{From: h[0], To: h[1], Size: 1000, Packets: packets})
		n.Run(dcb.Second)
		lost := 0
		if n := x.Loads()[0].Arrived; n < packets {
			lost = packets - n
		}
		if l := x.Loads()[0]; l.Sent != packets || l.Arrived < c.arrived[0] || l.Arrived > c.arrived[1] || int(x.Errors(at)) != lost || n.Pool().Used() != 0 {
			t.Errorf("%s: %+v, %d errors, %d frames in use", c.name, l, x.Errors(at), n.Pool().Used())
		}
		if x.SetFaults(at, nil); x.Faults(at) != nil {
			t.Errorf("%s: still there", c.name)
		}
	}
}

// A system that pauses the switch has sent the frame itself, and does not get it.
func TestPausesOfASystemAreNotShownToIt(t *testing.T) {
	shown := 0
	n := New(Config{Fabric: generate(t, "star:2"), Link: lossless(), Pausing: func(dcb.Time, int, *dcb.Frame) { shown++ }})
	h := hostsOf(n)[0]
	f := n.Pool().Frame()
	f.Op, f.Enable, f.Quanta[3] = ethernet.OpPFC, 1<<3, 100
	n.Extras().Pause(0, h, f)
	n.Run(dcb.Microsecond)
	if at := n.Fabric().Nodes[h].Ports[1].Peer; n.Port(at).Counters(3).PausesReceived != 1 || shown != 0 || n.InUse() != 0 {
		t.Errorf("%+v, shown %d times, %d frames in use", n.Port(at).Counters(3), shown, n.InUse())
	}
}

// If all frames that pause are lost, a lossless priority loses frames for lack of headroom.
func TestLostPausesLoseFrames(t *testing.T) {
	drops := make(map[reason.Reason]int)
	c := Config{Fabric: generate(t, "star:2"), Link: lossless(), Dropped: func(_ dcb.Time, _ topology.End, _ *dcb.Frame, d reason.Detail) { drops[d.Reason]++ }}
	c.Deliver = func(dcb.Time, topology.End, *dcb.Frame) bool { return false }
	n := New(c)
	h := hostsOf(n)
	x := n.Extras()
	x.SetFaults(topology.End{Node: h[1], Port: 1}, &Faults{PauseLoss: 1})
	x.Stall(0, h[1], 1<<3)
	x.Generate(0, Load{From: h[0], To: h[1], Priority: 3, Size: 1000, Packets: 1000})
	n.Run(dcb.Millisecond)
	if drops[reason.EthernetHeadroom] == 0 || len(drops) != 1 {
		t.Errorf("%v", drops)
	}
}
