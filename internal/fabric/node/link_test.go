package node

import (
	"testing"
	"time"

	"softrdma/internal/management/hardware"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
	"softrdma/internal/wire/mad/smp"
)

// management is a subnet management packet by directed route.
func management() []byte {
	return ib.AppendNative(nil, ib.LRH{VL: ib.ManagementVL, Next: ib.LocalBTH, DLID: ib.PermissiveLID, SLID: ib.PermissiveLID}, nil,
		&ib.Packet{BTH: ib.BTH{Opcode: ib.UDSendOnly, PKey: 0xffff}, DETH: ib.DETH{}, Payload: make([]byte, 256)})
}

func TestDirectedRoutePacketsPassNodesInInit(t *testing.T) {
	w := newWorld(t)
	line(w, 1, Config{Port: quiet})
	w.run(w.now + time.Microsecond)
	if l := w.nodes[2].Link(1); l.State != smp.PortInit || l.Physical != smp.PhysicalLinkUp {
		t.Fatalf("link %+v", l)
	}
	w.nodes[0].Send(w.now, 1, management())
	w.run(w.now + 10*time.Microsecond)
	if len(w.arrived[2]) != 1 {
		t.Fatalf("%d packets at the switch's port 0", len(w.arrived[2]))
	}
	w.nodes[2].Send(w.now, 2, management()) // as its agent sends it on
	w.run(w.now + 10*time.Microsecond)
	if len(w.arrived[1]) != 1 {
		t.Errorf("%d packets at the other adapter", len(w.arrived[1]))
	}
	if w.send(0, 1, 0, 0, 8); len(w.drops) != 1 || w.drops[0].Reason != reason.FabricPortState {
		t.Errorf("data packet in INIT: dropped %v", w.drops)
	}
}

func TestLinkDownDiscardsWhatWaitsAndComesBack(t *testing.T) {
	w := newWorld(t)
	line(w, 2, Config{Port: quiet})
	w.activate(hardware.PortConfig{})
	s := &stream{src: 0, dst: 1, size: 2048, total: 100}
	for s.next < 20 && w.send(0, 1, 0, s.next, 2048) {
		s.next++
	}
	w.run(w.now + 2*time.Microsecond)
	a, b := end{2, 2}, end{3, 1}
	w.nodes[a.node].SetLink(a.port, hardware.LinkDown)
	w.nodes[b.node].Disconnect(w.now, b.port)
	w.run(w.now + 20*time.Microsecond)
	if c := w.nodes[2].Counters(2); c.LinkDowned != 1 || c.InactiveDiscards == 0 {
		t.Errorf("down %d times, %d discards", c.LinkDowned, c.InactiveDiscards)
	}
	w.checkEmpty(0)
	w.join(a, b, linkQDR4x)
	for _, e := range []end{a, b} {
		n := w.nodes[e.node]
		if n.SetLink(e.port, hardware.LinkActivate) {
			t.Error("port became active without having been armed")
		}
		if !n.SetLink(e.port, hardware.LinkArm) {
			t.Error("port cannot be armed")
		}
	}
	w.nodes[a.node].SetLink(a.port, hardware.LinkActivate)
	w.arrived[1] = nil
	w.send(0, 1, 0, 0, 100)
	w.run(w.now + 20*time.Microsecond)
	if len(w.arrived[1]) != 1 {
		t.Errorf("%d packets arrived after the link came back", len(w.arrived[1]))
	}
	if s := w.nodes[b.node].Link(b.port).State; s != smp.PortActive { // by the packet, IBTA 7.2.7
		t.Errorf("armed port that got a packet is %v, expected active", s)
	}
}

func TestTrainFollowsBothEnds(t *testing.T) {
	all := hardware.Link{Width: smp.Width1x | smp.Width4x, Speed: smp.SpeedSDR | smp.SpeedDDR | smp.SpeedQDR, ExtSpeed: smp.ExtSpeedFDR}
	a, b := End{New(Config{Ports: 1}), 1}, End{New(Config{Switch: true, Ports: 4}), 3}
	check := func(what string, up bool, state smp.PortState, speed smp.Speed) {
		t.Helper()
		got := Train(0, a, b, all)
		la, lb := a.Node.Link(a.Port), b.Node.Link(b.Port)
		if got != up || lb.State != state || up && la != lb || la.Speed != speed {
			t.Errorf("%s: up %v, links %+v and %+v", what, got, la, lb)
		}
	}
	check("cable plugged in", true, smp.PortInit, smp.SpeedQDR)
	a.Node.SetLink(1, hardware.LinkDisable)
	check("one end disabled", false, smp.PortDown, 0)
	a.Node.SetLink(1, hardware.LinkPoll)
	check("enabled again", true, smp.PortInit, smp.SpeedQDR)
	reconfigure(a.Node, 1, func(c *hardware.PortConfig) { c.Speed, c.ExtSpeed = smp.SpeedSDR, smp.ExtSpeedNone })
	b.Node.SetLink(3, hardware.LinkDown)
	check("slower, trained again", true, smp.PortInit, smp.SpeedSDR)
}
