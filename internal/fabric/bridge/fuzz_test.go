package bridge

import (
	"net/netip"
	"testing"

	"softrdma/internal/fabric/dcb"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ethernet"
)

// frameOf returns a frame of a type from host 1 to an address, with tags of VLANs.
func frameOf(dst dcb.Address, typ uint16, rest []byte, vlans ...uint16) []byte {
	d, s := dst.MAC(), host(1).MAC()
	b := append(append([]byte(nil), d[:]...), s[:]...)
	for _, v := range vlans {
		b = append(b, ethernet.TypeVLAN>>8, ethernet.TypeVLAN&0xff, byte(v>>8), byte(v))
	}
	return append(append(b, byte(typ>>8), byte(typ)), rest...)
}

// FuzzReceive gives a switch whatever hosts may send, at ports with VLANs and without, of lossy and lossless
// priorities. It keeps no frame and no room in its buffer once its neighbors have let everything leave.
func FuzzReceive(f *testing.F) {
	ipv4 := make([]byte, 20)
	ipv4[0], ipv4[8] = 0x45, 64
	copy(ipv4[12:], []byte{10, 0, 0, 1, 10, 0, 0, 2})
	seed := func(frames ...[]byte) {
		var script []byte
		for i, b := range frames {
			script = append(append(script, byte(i), byte(len(b)>>8), byte(len(b))), b...)
		}
		f.Add(script)
	}
	pause := func(op uint16, enable byte) []byte {
		c := ethernet.Control{Src: host(2).MAC(), Op: op, Enable: enable}
		for i := range c.Quanta {
			c.Quanta[i] = ethernet.MaxQuanta
		}
		return c.Append(nil)
	}
	long := make([]byte, 9000)
	seed(frameOf(host(2), ethernet.TypeIPv4, ipv4), frameOf(router, ethernet.TypeIPv4, ipv4, 0x6001))
	seed(frameOf(dcb.Broadcast, ethernet.TypeARP, make([]byte, 46), 1, 7, 9), frameOf(host(2), ethernet.TypeVLAN, nil, 7), frameOf(host(1), ethernet.TypeIPv6, long))
	seed(pause(ethernet.OpPFC, 0xff), frameOf(dcb.Broadcast, ethernet.TypeRoCE, long[:1000], 0xe007), pause(ethernet.OpPause, 0), frameOf(0x0180c2000001, ethernet.TypeControl, long[:50]))
	seed(frameOf(0x0180c200000e, ethernet.TypeLLDP, long[:46]), frameOf(router, ethernet.TypeIPv4, ipv4[:19]), frameOf(router, ethernet.TypeIPv6, ipv4))
	f.Fuzz(func(t *testing.T, script []byte) {
		c := Config{Ports: ports(4, pfc(1<<3)), Remark: RaisePriorities(3, 4), Addresses: 4, Buffer: BufferConfig{Size: 64 << 10, Lossless: -2, Lossy: -2, Queue: -1}}
		c.Ports[2].Tagged, c.Ports[3].Trunk, c.Ports[4].VLAN = []uint16{7, 9}, true, 7
		c.Ports[1].Storm = Storm{Rate: dcb.Gbit, Burst: 3000}
		for i := 1; i < len(c.Ports); i++ {
			c.Ports[i].Headroom = 4000
		}
		w := newWorld(t, c)
		w.sw.AddRoute(netip.MustParsePrefix("10.0.0.0/24"), Hop{Port: 2, Address: host(2)}, Hop{Port: 3, Address: host(3)})
		frames := 0
		for len(script) > 3 {
			n := min(int(script[1])<<8|int(script[2]), len(script)-3)
			x := w.pool.Frame()
			x.Data = append(x.Data[:0], script[3:3+n]...)
			port := 1 + int(script[0])%w.sw.Ports()
			gap := dcb.Time(script[0]>>2) * 10 * dcb.Nanosecond
			script = script[3+n:]
			if x.Parse().Reason != reason.None {
				w.pool.Put(x)
				continue
			}
			frames++
			x.At, x.Tail = w.now, w.now+dcb.Time(x.Len)*w.sw.Port(port).PerByte()
			w.sw.Receive(w.now, port, x)
			w.run(w.now + gap)
		}
		w.run(w.now + dcb.Second) // each pause is over
		if used, b := w.pool.Used(), w.sw.Buffer(); used != 0 || b.Used != 0 {
			t.Errorf("after %d frames, %d are left, and %d bytes of the buffer", frames, used, b.Used)
		}
		for i := 1; i <= w.sw.Ports(); i++ {
			for p := range uint8(ethernet.Priorities) {
				if held, _, _ := w.sw.Held(i, p); held != 0 || w.sw.Port(i).Stopped() != 0 {
					t.Errorf("port %d holds %d bytes of priority %d, and pauses %#x", i, held, p, w.sw.Port(i).Stopped())
				}
			}
		}
		for _, d := range w.drops {
			if d.Reason == reason.None {
				t.Error("a drop without a reason")
			}
		}
	})
}
