package live_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"softrdma/internal/fabric/attach"
	"softrdma/internal/fabric/control"
	"softrdma/internal/fabric/fabrictest"
	"softrdma/internal/fabric/hostport"
	"softrdma/internal/fabric/live"
	"softrdma/internal/link/fabric"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ethernet"
	"softrdma/internal/wire/ib"
)

// typeOf is the type of a frame.
func typeOf(frame []byte) uint16 {
	var h ethernet.Header
	h.Parse(frame)
	return h.Type
}

// A system is a host with a network stack of its own, which obeys no pause.
type system struct {
	*fabric.Frames
	t    *testing.T
	port *attach.Port
	mac  ethernet.MAC
}

func attachSystem(t *testing.T, f *fabrictest.Fabric, i int) *system {
	t.Helper()
	p, err := attach.OpenService(context.Background(), f.Adapters[i], hostport.WholeFrames, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return &system{fabric.NewFrames(p.Link()), t, p, p.Info().Ethernet.MAC}
}

// await returns the next frame that is wanted.
func (s *system) await(what string, wanted func(frame []byte) bool) []byte {
	s.t.Helper()
	b, n := make([]byte, fabric.MaxFrame), 0
	fabrictest.WaitFor(s.t, what, func() bool {
		var err error
		if n, err = s.Receive(b); err != nil {
			s.t.Fatal(err)
		}
		return n > 0 && wanted(b[:n])
	})
	return b[:n]
}

// packet is a datagram of a type of service to a host, by way of the switch.
func (s *system) packet(gateway ethernet.MAC, to *wired, tos uint8, size int) []byte {
	frame := make([]byte, ethernet.HeaderLen+20+8+size)
	at := (&ethernet.Header{Dst: gateway, Src: s.mac, Type: ethernet.TypeIPv4}).Put(frame)
	at += ib.PutIP(frame[at:], s.port.Info().Addrs[0], to.Local().Addr(), tos, 64, 0, 8+size)
	ib.PutUDP(frame[at:], 1234, udpPort, size, 0)
	return frame
}

// The switch tells a system by LLDP what its port is set to, and names what does not fit to what the
// system says.
func TestSwitchSpeaksLLDPToASystem(t *testing.T) {
	f := fabrictest.StartEthernet(t, "star:2", func(*live.Config) {})
	s := attachSystem(t, f, 0)
	var l ethernet.LLDP
	frame := s.await("LLDP", func(b []byte) bool { return typeOf(b) == ethernet.TypeLLDP })
	if d := l.Parse(frame); d.Reason != reason.None || len(frame) < ethernet.MinLen {
		t.Fatalf("%v in % x", d, frame)
	}
	if l.PFC == nil || l.PFC.Enable != 1<<3 || l.ETS == nil || l.SystemName != "test/switch-0" || l.Port.Value != "switch-0:1" ||
		!slices.Contains(l.Applications, ethernet.Application{Priority: 3, Selector: ethernet.ByUDP, Number: 4791}) {
		t.Errorf("%+v", l)
	}
	reply := ethernet.LLDP{Src: s.mac, Chassis: ethernet.ID{Kind: ethernet.ChassisMAC, Value: string(s.mac[:])}, Port: ethernet.ID{Kind: ethernet.PortName, Value: "tap0"},
		TTL: 120, SystemName: "kernel", PFC: &ethernet.PFC{Limit: 8, Enable: 1 << 4}}
	if err := s.Send(0, reply.Append(nil)); err != nil {
		t.Fatal(err)
	}
	end := func() control.LinkEnd { return answer(t, f, control.Request{Verb: control.VerbLinks}).Links[0].Ends[0] }
	fabrictest.WaitFor(t, "the neighbor", func() bool { return end().Neighbor != "" })
	if e := end(); e.Neighbor != "kernel tap0" || len(e.Mismatches) != 1 || !strings.HasPrefix(e.Mismatches[0], "ETHERNET_MISMATCH_PFC: ") {
		t.Errorf("%+v", e)
	}
	_ = s.port.Close()
	fabrictest.WaitFor(t, "no neighbor", func() bool { return end().Neighbor == "" })
}

// A system sees how the switch pauses its port. It does not obey: frames of the paused priority fill the
// queue of the port and are dropped then, and others pass.
func TestSystemSeesPausesAndLosesWhatItSendsIntoThem(t *testing.T) {
	f := fabrictest.StartEthernet(t, "star:2", func(*live.Config) {})
	s, to := attachSystem(t, f, 0), attachHost(f, 1)
	lldp := s.await("LLDP", func(b []byte) bool { return typeOf(b) == ethernet.TypeLLDP })
	gateway := ethernet.MAC(lldp[6:12])
	answer(t, f, control.Request{Verb: control.VerbStall, Args: []string{"node-1"}, Levels: []int{3}})
	paused := func(b []byte) bool {
		var c ethernet.Control
		return c.Parse(b) && c.Op == ethernet.OpPFC && c.Enable == 1<<3 && c.Quanta[3] == ethernet.MaxQuanta && c.Src == gateway
	}
	seen := false
	b := make([]byte, fabric.MaxFrame)
	dropped := func() (n uint64) {
		for _, c := range answer(t, f, control.Request{Verb: control.VerbCounters, Args: []string{"node-0"}}).Counters[0].Values {
			if c.Name == reason.EthernetQueueFull.String() {
				n = c.Value
			}
		}
		return n
	}
	fabrictest.WaitFor(t, "a frame that is dropped", func() bool {
		for range 200 {
			for s.Room(3) {
				if err := s.Send(3, s.packet(gateway, to, 96, 8000)); err != nil {
					t.Fatal(err)
				}
			}
			if n, err := s.Receive(b); err != nil {
				t.Fatal(err)
			} else if n > 0 && paused(b[:n]) {
				seen = true
			}
		}
		return dropped() > 0
	})
	if !seen {
		s.await("a pause", paused)
	}
	if err := s.Send(0, s.packet(gateway, to, 0, 100)); err != nil {
		t.Fatal(err)
	}
	if rx := to.receive(t); len(rx.Data) != 100 {
		t.Errorf("%d bytes", len(rx.Data))
	}
	if r := answer(t, f, control.Request{Verb: control.VerbStall}); len(r.Stalled) != 1 || r.Stalled[0].Node != "node-1" {
		t.Errorf("%+v", r.Stalled)
	}
}

// The switch obeys a frame with which a system pauses it.
func TestSwitchObeysPausesOfASystem(t *testing.T) {
	f := fabrictest.StartEthernet(t, "star:2", func(*live.Config) {})
	s := attachSystem(t, f, 0)
	c := ethernet.Control{Src: s.mac, Op: ethernet.OpPFC, Enable: 1 << 3, Quanta: [8]uint16{3: ethernet.MaxQuanta}}
	if err := s.Send(0, c.Append(nil)); err != nil {
		t.Fatal(err)
	}
	fabrictest.WaitFor(t, "a pause at the switch", func() bool {
		values := answer(t, f, control.Request{Verb: control.VerbCounters, Args: []string{"switch-0:1"}}).Counters[0].Values
		return slices.Contains(values, control.Counter{Name: "priority 3 pauses received", Value: 1})
	})
}
