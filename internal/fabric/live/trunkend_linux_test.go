package live

import (
	"encoding/binary"
	"net/netip"
	"testing"
	"time"

	"softrdma/internal/fabric/bridge"
	"softrdma/internal/fabric/dcb"
	"softrdma/internal/fabric/lan"
	"softrdma/internal/fabric/trunk"
	"softrdma/internal/management/hardware"
	"softrdma/internal/reason"
	"softrdma/internal/topology"
	"softrdma/internal/wire/ethernet"
	"softrdma/internal/wire/ib"
)

// A fastEnd is the other end of a trunk, behind which there is no link: it sends one frame again and again,
// as fast as it may.
type fastEnd struct {
	trunk  *trunk.Trunk
	flow   trunk.Flow
	frame  []byte
	up     bool
	paused bool
	pauses int
}

var _ trunk.Port = (*fastEnd)(nil)

func (x *fastEnd) Nodes(*trunk.Peer, []uint64) (d reason.Detail) { return d }
func (x *fastEnd) Connect(time.Duration, hardware.Link)          { x.up = true; x.flow.Init() }
func (x *fastEnd) Disconnect(time.Duration)                      { x.up = false }
func (x *fastEnd) Ended(reason.Detail)                           {}

func (x *fastEnd) Frame(now time.Duration, b []byte) {
	switch b[0] {
	case carriedFrame:
		x.flow.Receive(trunk.Cost(len(b)))
		x.flow.Taken = x.flow.Received
		if limit, ok := x.flow.Grant(); ok {
			x.trunk.Send(now, binary.BigEndian.AppendUint64([]byte{carriedCredit}, limit))
		}
	case carriedPause:
		var k ethernet.Control
		if k.Parse(b[1:]); k.Enable&(1<<3) != 0 {
			x.paused = k.Quanta[3] != 0
			x.pauses++
		}
	case carriedCredit:
		x.flow.Raise(binary.BigEndian.Uint64(b[1:]))
	}
}

// send sends what the other end has granted, unless it has paused that.
func (x *fastEnd) send(now time.Duration) {
	for n := trunk.Cost(len(x.frame)); x.up && !x.paused && x.flow.Room(n); x.flow.Sent += n {
		x.trunk.Send(now, x.frame)
	}
}

// newTrunkEnd joins a network of a switch and two hosts, with links of a speed, to a fastEnd.
func newTrunkEnd(t *testing.T, speed dcb.Speed, drops map[reason.Reason]int) (n *ethernetNetwork, e *lanEnd, x *fastEnd) {
	t.Helper()
	shape, err := topology.Generate("star:2,spare=1")
	if err != nil {
		t.Fatal(err)
	}
	at := topology.End{Node: 0, Port: 3}
	f := &Fabric{programs: make(map[int]*program), config: Config{
		Fabric: shape, Trunks: Trunks{Cables: []Cable{{At: at}}},
		Ethernet: &Ethernet{
			Link:   lan.Link{Port: dcb.PortConfig{Speed: speed, MTU: 9018, Pause: dcb.ByClass, Lossless: 1 << 3}},
			Switch: bridge.Config{Buffer: bridge.BufferConfig{Size: 4 << 20}},
			Prefix: netip.MustParsePrefix("10.1.0.0/16"),
		},
		Dropped: func(_ topology.End, d reason.Detail) { drops[d.Reason]++ },
	}}
	n = newEthernet(f)
	f.network = n
	f.trunks = &trunks{fabric: f, process: 1}
	end := &trunkEnd{trunks: f.trunks, at: at}
	e = n.plugOf(end).(*lanEnd)
	end.plug = e
	random := uint64(0)
	config := func(p trunk.Port, numbers []uint64) trunk.Config {
		return trunk.Config{Use: trunk.Ethernets, GUIDs: numbers, Supported: trunk.AnyLink, Port: p, Random: func() uint64 { random++; return random }}
	}
	numbers, _, _ := e.said()
	end.trunk = trunk.New(0, config(e, numbers))
	f.trunks.ends = append(f.trunks.ends, end)
	if err := e.begin(); err != nil {
		t.Fatal(err)
	}
	x = new(fastEnd)
	x.trunk = trunk.New(0, config(x, []uint64{0x0a02_0000<<8 | 16, 0x02_00_01_00_00_01}))
	x.trunk.PortChanged(0, trunk.PortState{Polls: true, Width: trunk.AnyLink.Width, Speed: trunk.AnyLink.Speed})
	return n, e, x
}

// step lets packets pass in both directions, as a round of the loop does.
func (x *fastEnd) step(now time.Duration, n *ethernetNetwork, e *lanEnd) {
	n.trunks.now = now
	x.send(now)
	for b := x.trunk.Next(now); b != nil; b = x.trunk.Next(now) {
		e.trunk.Receive(now, b)
		e.received()
	}
	n.run(now, now+ahead)
	for b := e.trunk.Next(now); b != nil; b = e.trunk.Next(now) {
		x.trunk.Receive(now, b)
	}
}

// A trunk loses nothing of a lossless priority to a host that takes nothing, however fast the frames come
// and however late the frame that pauses leaves, because it may have to wait for one that is leaving.
func TestTrunkGrantsNothingBeforeItsPauses(t *testing.T) {
	for name, c := range map[string]struct {
		speed dcb.Speed
		busy  bool
	}{"fast links": {100 * dcb.Gbit, false}, "slow links": {10 * dcb.Mbit, true}} {
		for _, size := range []int{60, 257, 4000} {
			drops := make(map[reason.Reason]int)
			n, e, x := newTrunkEnd(t, c.speed, drops)
			const host = 1
			n.lan.Extras().Stall(0, host, 1<<3)
			x.frame = append([]byte{carriedFrame}, make([]byte, size)...)
			b := x.frame[1:]
			at := (&ethernet.Header{Dst: n.lan.Gateway(host).MAC(), Src: dcb.Address(0x02_00_01_00_00_01).MAC(), Type: ethernet.TypeIPv4}).Put(b)
			ib.PutIP(b[at:], netip.MustParseAddr("10.2.0.1"), n.lan.IP(host).Addr(), 3<<5, 64, 0, size-at-ipv4Len)
			for now := time.Duration(0); now < 200*time.Millisecond; now += 100 * time.Microsecond {
				if c.busy && x.up && now%time.Millisecond == 0 { // so that the port of the trunk is sending
					f := n.lan.Pool().Frame()
					f.Data = append(f.Data[:0], make([]byte, 9000)...)
					at := (&ethernet.Header{Dst: n.lan.Gateway(host).MAC(), Src: n.lan.MAC(host).MAC(), Type: ethernet.TypeIPv4}).Put(f.Data)
					ib.PutIP(f.Data[at:], n.lan.IP(host).Addr(), netip.MustParseAddr("10.2.0.1"), 0, 64, 0, 9000-at-ipv4Len)
					if f.Parse(); !n.lan.Send(dcb.FromDuration(now), host, f) {
						n.lan.Pool().Put(f)
					}
				}
				x.step(now, n, e)
			}
			if x.pauses == 0 || !x.paused {
				t.Errorf("%s, frames of %d bytes: not paused", name, size)
			}
			if len(drops) != 0 {
				t.Errorf("%s, frames of %d bytes: drops %v", name, size, drops)
			}
		}
	}
}

// FuzzFramesOfATrunk gives an Ethernet any frames of a trunk's other end. It keeps none of them, and
// takes no more than it has granted.
func FuzzFramesOfATrunk(f *testing.F) {
	f.Add([]byte{1, carriedFrame, 9, carriedCredit, 0, 0, 0, 0, 0, 5, 0, 0})
	f.Add(append([]byte{61}, (&ethernet.Control{Op: ethernet.OpPFC, Enable: 0xff, Quanta: [8]uint16{3: 1}}).Append([]byte{carriedPause})...))
	f.Add(append([]byte{61}, (&ethernet.Control{Op: ethernet.OpPause, Enable: 0xff}).Append([]byte{carriedFrame})...))
	f.Fuzz(func(t *testing.T, script []byte) {
		n, e, x := newTrunkEnd(t, dcb.Gbit, make(map[reason.Reason]int))
		now := time.Duration(0)
		for ; !x.up && now < time.Second; now += time.Millisecond {
			x.step(now, n, e)
		}
		for len(script) > 0 {
			size := min(int(script[0]), len(script)-1)
			frame := script[1 : 1+size]
			script = script[1+size:]
			for range 64 {
				x.trunk.Send(now, frame)
			}
			now += time.Millisecond
			x.step(now, n, e)
		}
		if e.flow.Taken > e.flow.Granted || e.flow.Limit > e.flow.Sent+trunk.Window {
			t.Errorf("%+v", e.flow)
		}
		n.lan.Trunks().Leave(dcb.FromDuration(now), e.at)
		n.run(now, now+time.Second)
		if used := n.lan.InUse(); used != 0 {
			t.Errorf("%d frames in use", used)
		}
	})
}
