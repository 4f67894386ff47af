package lan

import (
	"testing"

	"softrdma/internal/fabric/bridge"
	"softrdma/internal/fabric/dcb"
	"softrdma/internal/fabric/station"
	"softrdma/internal/reason"
	"softrdma/internal/topology"
	"softrdma/internal/wire/ethernet"
)

// FuzzHosts lets the hosts of a network send any frames, also ones that pause, while some take nothing for a
// while. Once they have stopped and take everything, no frame is left, and each was counted once.
func FuzzHosts(f *testing.F) {
	mac := (&Network{}).MAC // with the default prefix
	frame := func(dst dcb.Address, typ uint16, n int) []byte {
		d, s := dst.MAC(), mac(0).MAC()
		return append(append(append(append([]byte(nil), d[:]...), s[:]...), byte(typ>>8), byte(typ)), make([]byte, n)...)
	}
	seed := func(frames ...[]byte) {
		var script []byte
		for i, b := range frames {
			script = append(append(script, byte(i*37), byte(len(b)>>8), byte(len(b))), b...)
		}
		f.Add(script)
	}
	storm := ethernet.Control{Op: ethernet.OpPFC, Enable: 0xff}
	for i := range storm.Quanta {
		storm.Quanta[i] = ethernet.MaxQuanta
	}
	tagged := frame(dcb.Broadcast, ethernet.TypeVLAN, 100)
	tagged[14], tagged[16], tagged[17] = 0x60, ethernet.TypeVLAN>>8, ethernet.TypeVLAN&0xff
	seed(storm.Append(nil), storm.Append(nil), frame(mac(4), ethernet.TypeRoCE, 1500), storm.Append(nil))
	seed(frame(mac(0), ethernet.TypeIPv4, 40), tagged, frame(dcb.Broadcast, ethernet.TypeARP, 46), frame(mac(3), 0x1234, 9500), tagged[:15])
	f.Fuzz(func(t *testing.T, script []byte) {
		fabric, err := topology.Generate("leaf-spine:leaves=2,spines=2,hosts=2")
		if err != nil {
			t.Fatal(err)
		}
		link := lossless()
		link.Port.Lossless = 1<<3 | 1<<4
		var n *Network
		stalled, delivered, drops := map[int]bool{}, 0, map[reason.Reason]uint64{}
		c := Config{Fabric: fabric, Link: link, IPv6: true, Bridged: true, Host: station.Config{Queue: 4000, Buffer: 4000},
			Switch: bridge.Config{Buffer: bridge.BufferConfig{Size: 1 << 20, Lossless: -4, Lossy: -6, Queue: -6}}}
		c.Deliver = func(_ dcb.Time, at topology.End, x *dcb.Frame) bool {
			if n.Host(at.Node) == nil || stalled[at.Node] {
				return false
			}
			delivered++
			n.Pool().Put(x)
			return true
		}
		c.Dropped = func(_ dcb.Time, _ topology.End, _ *dcb.Frame, d reason.Detail) { drops[d.Reason]++ }
		n = New(c)
		var hosts []int
		for i := range n.nodes {
			if n.nodes[i].host != nil {
				hosts = append(hosts, i)
			}
		}
		for len(script) > 3 {
			size := min(int(script[1])<<8|int(script[2]), len(script)-3)
			from := hosts[int(script[0])%len(hosts)]
			x := n.Pool().Frame()
			x.Data = append(x.Data[:0], script[3:3+size]...)
			stalled[from] = script[0]&0x10 != 0
			gap := dcb.Time(script[0]>>5) * 200 * dcb.Nanosecond
			script = script[3+size:]
			if x.Parse().Reason != reason.None {
				n.Pool().Put(x)
				continue
			}
			x.Priority = x.DSCP >> 3 & 7
			if !n.Send(n.Now(), from, x) {
				n.Host(from).Discard(n.Now(), x)
			}
			n.Run(n.Now() + gap)
		}
		clear(stalled)
		for _, h := range hosts {
			n.Resume(n.Now(), h)
		}
		n.Run(n.Now() + dcb.Second)
		if left := n.InUse(); left != 0 {
			t.Errorf("%d frames are left: %+v", left, n.Standstill(0))
		}
		counted := map[reason.Reason]uint64{}
		for i := range n.nodes {
			k := &n.nodes[i]
			for r := reason.EthernetLength; r <= reason.EthernetForeign; r++ {
				if k.host != nil {
					counted[r] += k.host.Dropped(r)
					continue
				}
				for p := 1; p <= k.sw.Ports(); p++ {
					counted[r] += k.sw.Port(p).Dropped(r)
				}
			}
			if k.sw != nil && k.sw.Buffer().Used != 0 {
				t.Errorf("switch %d: %d bytes of its buffer leaked", i, k.sw.Buffer().Used)
			}
		}
		for r, want := range drops {
			if r == reason.None || counted[r] != want {
				t.Errorf("%v: %d drops, %d counted", r, want, counted[r])
			}
		}
	})
}
