package lan

import (
	"testing"

	"softrdma/internal/fabric/dcb"
	"softrdma/internal/reason"
	"softrdma/internal/topology"
	"softrdma/internal/wire/ethernet"
)

// TestPortsAgreeByFramesOfTheirLink sends LLDP over a cable in both directions. The host takes the
// switch's lossless priority, and an incast of that priority loses nothing any more.
func TestPortsAgreeByFramesOfTheirLink(t *testing.T) {
	link := lossless()
	link.Port.Pause, link.Port.Lossless = dcb.ByClass, 1<<4
	agents := map[topology.End]*dcb.Agent{}
	var n *Network
	c := Config{Fabric: generate(t, "star:4"), Link: link}
	c.Switch.Buffer.Size = 1 << 20
	c.Deliver = func(now dcb.Time, at topology.End, f *dcb.Frame) bool {
		if a := agents[at]; a != nil && len(f.Data) > 0 {
			l := new(ethernet.LLDP)
			if d := l.Parse(f.Data); d.Reason != reason.None {
				t.Error(d)
			}
			a.Receive(now, l)
		}
		n.Pool().Put(f)
		return true
	}
	n = New(c)
	settings := func(priority uint8, willing bool) (s dcb.Settings) {
		s.Selection, s.Selection.Willing = link.Port.Selection, willing
		s.PFC = ethernet.PFC{Willing: willing, Enable: 1 << priority}
		return s
	}
	for i := range n.ends {
		if e := &n.ends[i]; e.peer >= 0 {
			agents[e.at] = dcb.NewAgent(e.node.net.MAC(e.at.Node), "port", "node", settings(3+uint8(min(1, e.at.Node)), e.node.host != nil))
		}
	}
	for range 5 {
		for i := range n.ends {
			e := &n.ends[i]
			l := agents[e.at].Next(n.Now())
			if l == nil {
				continue
			}
			f := n.Pool().Frame()
			f.Data = l.Append(f.Data)
			if d := f.Parse(); d.Reason != reason.None {
				t.Fatal(d)
			}
			if f.Priority = 7; e.node.sw != nil {
				e.node.sw.Send(n.Now(), e.at.Port, f)
			} else {
				n.Send(n.Now(), e.at.Node, f)
			}
		}
		n.Run(n.Now() + dcb.Second)
	}
	for at, a := range agents {
		if s := a.InForce(); a.Neighbor() == nil || s.PFC.Enable != 1<<3 || len(a.Mismatches()) != 0 {
			t.Errorf("%v: %#x is lossless, mismatches %v", at, s.PFC.Enable, a.Mismatches())
		}
		if port := a.Apply(link.Port); port.Lossless != 1<<3 || port.Pause != dcb.ByClass {
			t.Errorf("%v: %+v", at, port)
		}
	}
}
