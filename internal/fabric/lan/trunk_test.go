package lan

import (
	"net/netip"
	"testing"

	"softrdma/internal/fabric/bridge"
	"softrdma/internal/fabric/dcb"
	"softrdma/internal/fabric/station"
	"softrdma/internal/reason"
	"softrdma/internal/topology"
	"softrdma/internal/wire/ethernet"
	"softrdma/internal/wire/ib"
)

// A joined is one of two networks that a trunk joins, each with a switch and two hosts.
type joined struct {
	*Network
	t      *testing.T
	at     topology.End
	far    *joined
	way    []underWay // frames to far
	bytes  int        // of frames that the other network has not said to have taken
	closed bool       // hosts take nothing
	asks   bool       // frames ask for telemetry
	got    int
	drops  map[reason.Reason]int
}

// An underWay is a frame on the way to the other network, or what that has taken.
type underWay struct {
	at    dcb.Time
	frame []byte
	taken int
}

// What the way between the two networks does: it is slow, and takes no more than so many bytes.
const (
	wayDelay = 2 * dcb.Millisecond
	wayBytes = 100_000
)

// Send implements Trunk.
func (j *joined) Send(f *dcb.Frame) {
	b := append([]byte(nil), f.Data...)
	if f.Op != 0 {
		b = (&ethernet.Control{Src: f.Src.MAC(), Op: f.Op, Enable: f.Enable, Quanta: f.Quanta}).Append(nil)
	}
	j.way = append(j.way, underWay{j.parts[0].now + wayDelay, b, 0})
	if f.Op == 0 {
		j.bytes += max(len(b), dcb.MinFrame)
	}
	j.pace()
}

// pace lets the port send as long as the way has room for the longest frame.
func (j *joined) pace() { j.Trunks().Hold(j.at, j.bytes > wayBytes-dcb.DefaultMTU) }

// Changed implements Trunk.
func (*joined) Changed() {}

// String implements Trunk.
func (*joined) String() string { return "far" }

// floodBytes is what a trunk may make the switch flood at once.
const floodBytes = 10_000

// join makes two networks. The ports of the trunk have a headroom.
func join(t *testing.T, headroom int) (a, b *joined) {
	t.Helper()
	both := [2]*joined{}
	for i := range both {
		f, err := topology.Generate("star:2,spare=1")
		if err != nil {
			t.Fatal(err)
		}
		j := &joined{t: t, at: topology.End{Node: 0, Port: 3}, drops: make(map[reason.Reason]int)}
		j.Network = New(Config{
			Fabric: f, Link: Link{Port: dcb.PortConfig{Speed: 10 * dcb.Gbit, Pause: dcb.ByClass, Lossless: 1 << 3}},
			Each: func(e topology.End, l *Link) {
				if e == j.at {
					l.Port.Lasting, l.Headroom, l.Storm = true, headroom, bridge.Storm{Rate: dcb.Gbit, Burst: floodBytes}
				}
			},
			Switch: bridge.Config{Buffer: bridge.BufferConfig{Size: 1 << 20}}, Host: station.Config{Queue: 64 << 10, Buffer: 64 << 10},
			Prefix: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i + 1)}), 16), IPv6: true, Bridged: true,
			Deliver: func(_ dcb.Time, at topology.End, f *dcb.Frame) bool {
				if j.closed || j.Host(at.Node) == nil {
					return false
				}
				j.got++
				j.Pool().Put(f)
				return true
			},
			Dropped: func(_ dcb.Time, _ topology.End, _ *dcb.Frame, d reason.Detail) { j.drops[d.Reason]++ },
		})
		j.Trunks().Plug(j.at, j)
		both[i] = j
	}
	a, b = both[0], both[1]
	a.far, b.far = b, a
	for _, j := range both {
		far, ok := ParseNumbers(j.far.Trunks().Numbers(j.far.at))
		if !ok {
			t.Fatal("numbers of a network do not parse")
		}
		j.Trunks().Join(0, j.at, far)
	}
	return a, b
}

// run lets both networks run, and the way between them carry what they send.
func (j *joined) run(until dcb.Time) {
	for now := j.Now(); now < until; {
		now += dcb.Microsecond
		for _, x := range []*joined{j, j.far} {
			for len(x.way) > 0 && x.way[0].at <= now {
				w := x.way[0]
				x.way = x.way[1:]
				if x.far.bytes -= w.taken; w.frame == nil {
					x.far.pace()
					continue
				}
				if d := x.far.Trunks().Arrive(now, x.far.at, w.frame); d.Reason != reason.None {
					j.t.Fatal(d)
				}
				if len(w.frame) > 0 && [2]byte(w.frame[12:]) != [2]byte{0x88, 0x08} {
					x.far.way = append(x.far.way, underWay{now + wayDelay, nil, max(len(w.frame), dcb.MinFrame)})
				}
			}
			x.Run(now)
		}
	}
}

// send sends frames from the first host to the first one of the other network as far as there is room, and
// returns how many.
func (j *joined) send(most int, priority uint8, size int) (sent int) {
	const from, to = 1, 1
	for ; sent < most && j.Host(from).Room(priority); sent++ {
		f := j.Pool().Frame()
		f.Data = append(f.Data[:0], make([]byte, size)...)
		at := (&ethernet.Header{Dst: j.Gateway(from).MAC(), Src: j.MAC(from).MAC(), Type: ethernet.TypeIPv4}).Put(f.Data)
		at += ib.PutIP(f.Data[at:], j.IP(from).Addr(), j.far.IP(to).Addr(), priority<<5, hopLimit, 0, size-at-20)
		ib.PutUDP(f.Data[at:], 0xc000, rocePort, size-at-8, 0)
		if d := f.Parse(); d.Reason != reason.None {
			j.t.Fatal(d)
		}
		f.Priority = priority
		if j.asks {
			f.Telemetry = new(dcb.Telemetry)
		}
		if !j.Network.Send(j.Now(), from, f) {
			j.t.Fatal("no room in spite of Room")
		}
	}
	return sent
}

// A network loses nothing of a lossless priority to another one that stops taking it, as long as the port
// there has room for what the way between them holds. Other priorities pass.
func TestPausesOverASlowTrunkLoseNothing(t *testing.T) {
	for _, size := range []int{60, 257, 1514} {
		a, b := join(t, wayBytes/dcb.MinFrame*bridge.DefaultCell+2*(dcb.DefaultMTU+bridge.DefaultCell))
		b.closed = true
		sent := 0
		for a.Now() < 40*dcb.Millisecond {
			sent += a.send(1000, 3, size)
			a.run(a.Now() + 20*dcb.Microsecond)
		}
		if got := b.Switch(0).Port(3).Counters(3); got.PausesSent == 0 || a.Switch(0).Port(3).Halted() != 1<<3 || a.Host(1).Halted() != 1<<3 {
			t.Errorf("frames of %d bytes: the pause has not come through: %+v", size, got)
		}
		b.closed = false
		past := a.send(10, 0, size)
		b.Resume(b.Now(), 1)
		a.run(a.Now() + 400*dcb.Millisecond)
		if b.got != sent+past || len(a.drops)+len(b.drops) > 0 {
			t.Errorf("frames of %d bytes: %d of %d and %d arrived; drops %v, %v", size, b.got, sent, past, a.drops, b.drops)
		}
	}
}

// With less headroom than that, frames are lost, and the reason says so.
func TestTrunkWithTooLittleHeadroomLosesFrames(t *testing.T) {
	a, b := join(t, wayBytes/10)
	b.closed = true
	for a.Now() < 40*dcb.Millisecond {
		a.send(1000, 3, 257)
		a.run(a.Now() + 20*dcb.Microsecond)
	}
	if b.drops[reason.EthernetHeadroom] == 0 || len(b.drops) != 1 {
		t.Errorf("drops %v", b.drops)
	}
}

// Frames leave by a trunk without what switches told of their links, and its port counts them.
func TestTelemetryEndsAtATrunk(t *testing.T) {
	a, b := join(t, 64<<10)
	b.asks = true
	for i, j := range []*joined{a, b} {
		sent := j.send(5, 0, 200)
		j.run(j.Now() + 10*dcb.Millisecond)
		if n := j.Switch(0).Port(3).Untold; sent != 5 || n != uint64(5*i) || j.far.got != 5 {
			t.Errorf("%d sent, %d arrived, %d without their telemetry", sent, j.far.got, n)
		}
	}
}

// Storm control limits what another network may make the switch at the trunk flood.
func TestStormControlLimitsFloodsFromATrunk(t *testing.T) {
	const frames, size, check, hosts = 40, 1000, 4, 2
	a, b := join(t, 64<<10)
	for range frames {
		f := make([]byte, size)
		(&ethernet.Header{Dst: [6]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, Src: a.MAC(1).MAC(), Type: 0x88b5}).Put(f)
		if d := b.Trunks().Arrive(0, b.at, f); d.Reason != reason.None {
			t.Fatal(d)
		}
	}
	b.Run(dcb.Millisecond)
	passed := floodBytes / (size + check)
	if dropped := b.drops[reason.EthernetStorm]; b.got != hosts*passed || dropped != frames-passed {
		t.Errorf("the hosts got %d frames, and %d were dropped, expected %d and %d", b.got, dropped, hosts*passed, frames-passed)
	}
}

func TestNumbersOfNetworks(t *testing.T) {
	for _, n := range [][]uint64{nil, {1}, {10<<32 | 8, 1 << 48}, {10<<32 | 25, 2 << 40}, {10<<32 | 1<<8 | 8, 2 << 40}, {1 << 41, 2 << 40}, {10<<32 | 8, 1 << 40}, {10<<32 | 8, 2 << 40, 3}} {
		if f, ok := ParseNumbers(n); ok {
			t.Errorf("%x: %+v", n, f)
		}
	}
	if f, ok := ParseNumbers([]uint64{10<<32 | 8, 2<<40 | 7}); !ok || f.Prefix != DefaultPrefix || f.Switch != 2<<40|7 {
		t.Errorf("%+v, %v", f, ok)
	}
}

// FuzzArrive gives a network any frame from a trunk. It keeps nothing of it.
func FuzzArrive(f *testing.F) {
	f.Add((&ethernet.Control{Op: ethernet.OpPFC, Enable: 0xff, Quanta: [8]uint16{3: 1}}).Append(nil))
	f.Add(make([]byte, 60))
	f.Fuzz(func(t *testing.T, frame []byte) {
		a, _ := join(t, 64<<10)
		a.Trunks().Arrive(0, a.at, frame)
		a.Trunks().Leave(0, a.at)
		a.Run(dcb.Second)
		if n := a.InUse(); n != 0 {
			t.Errorf("%d frames in use", n)
		}
	})
}
