package live_test

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"softrdma/internal/fabric/attach"
	"softrdma/internal/fabric/fabrictest"
	"softrdma/internal/fabric/live"
	"softrdma/internal/fabric/trunk"
	"softrdma/internal/fabric/trunk/udp"
	"softrdma/internal/management/hardware"
	"softrdma/internal/reason"
	"softrdma/internal/wire/mad/smp"
)

// place is where a fabric of StartRemote listens.
func place(f *fabrictest.Fabric) netip.AddrPort {
	return netip.MustParseAddrPort(strings.TrimPrefix(f.Name, "test@"))
}

// A rogue is a program on another host that has a session and sends any frames.
type rogue struct {
	t      *testing.T
	trunk  *trunk.Trunk
	socket *udp.Sockets
	start  time.Time
	up     bool
	frames int // that came
	ended  reason.Detail
}

var _ trunk.Port = (*rogue)(nil)

func (r *rogue) Nodes(*trunk.Peer, []uint64) (d reason.Detail) { return d }
func (r *rogue) Connect(time.Duration, hardware.Link)          { r.up = true }
func (r *rogue) Disconnect(time.Duration)                      {}
func (r *rogue) Frame(time.Duration, []byte)                   { r.frames++ }
func (r *rogue) Ended(d reason.Detail)                         { r.ended = d }

// newRogue opens a session.
func newRogue(t *testing.T, f *fabrictest.Fabric) *rogue {
	t.Helper()
	r := &rogue{t: t, start: time.Now()}
	var err error
	if r.socket, err = udp.Open(netip.AddrPort{}, []netip.AddrPort{place(f)}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.socket.Close)
	link := hardware.Link{Width: smp.Width4x, Speed: smp.SpeedQDR}
	r.trunk = trunk.New(0, trunk.Config{Use: trunk.Program, Self: trunk.Peer{Fabric: "test", Port: "rogue"}, Supported: link, Random: rand.Uint64, Port: r})
	r.trunk.PortChanged(0, trunk.PortState{Polls: true, Width: link.Width, Speed: link.Speed})
	r.pump("a session", func() bool { return r.up })
	return r
}

// pump lets packets pass until a condition is true.
func (r *rogue) pump(what string, condition func() bool) {
	r.t.Helper()
	var b [trunk.MaxPacket]byte
	fabrictest.WaitFor(r.t, what, func() bool {
		now := time.Since(r.start)
		for n, ok := r.socket.Receive(0, b[:]); ok; n, ok = r.socket.Receive(0, b[:]) {
			r.trunk.Receive(now, b[:n])
		}
		for p := r.trunk.Next(now); p != nil; p = r.trunk.Next(now) {
			r.socket.Send(0, p)
		}
		r.socket.Flush()
		return condition()
	})
}

// A program that has a session and sends what makes no sense loses it. Others continue.
func TestHostileProgramsOnOtherHostsEndAlone(t *testing.T) {
	f := fabrictest.StartRemote(t, "star:3", func(*live.Config) {})
	a, b := f.Attach(0), f.Attach(1)
	message := func(flags byte, m []byte) []byte { return append([]byte{2, flags}, m...) }
	_, node, _ := strings.Cut(f.Adapters[2], "/")
	hello, err := attach.Protocol.Message(attach.Hello, attach.HelloBody{Version: attach.Version, Node: node, Port: 1})
	if err != nil {
		t.Fatal(err)
	}
	old, err := attach.Protocol.Message(attach.Hello, attach.HelloBody{Version: attach.Version + 1, Node: node, Port: 1})
	if err != nil {
		t.Fatal(err)
	}
	opens := message(2, hello)
	for _, c := range []struct {
		name   string
		frames [][]byte
	}{
		{"no kind", [][]byte{{0}}},
		{"a packet before the rings", [][]byte{append([]byte{1}, make([]byte, 24)...)}},
		{"no rings", [][]byte{message(0, hello)}},
		{"rings for an address", [][]byte{message(2, append([]byte{byte(attach.Find)}, make([]byte, 16)...))}},
		{"rings twice", [][]byte{opens, opens}},
		{"another version of messages", [][]byte{message(2, old)}},
		{"an end", [][]byte{message(0, []byte{byte(attach.End)})}},
		{"a command", [][]byte{message(0, append([]byte{byte(attach.Command)}, "{}"...))}},
		{"no JSON", [][]byte{message(2, []byte{byte(attach.Hello), '{'})}},
		{"an unknown message", [][]byte{opens, message(0, []byte{200})}},
		{"credit that nobody has", [][]byte{opens, binary.BigEndian.AppendUint64([]byte{3, 0}, 1<<63)}},
		{"a lane that is none", [][]byte{opens, binary.BigEndian.AppendUint64([]byte{3, 17}, 300<<10)}},
		{"a packet shorter than its header", [][]byte{opens, {1, 0, 0}}},
	} {
		r := newRogue(t, f)
		for _, x := range c.frames {
			r.trunk.Send(time.Since(r.start), x)
		}
		r.pump("the end of a program that sent "+c.name, func() bool { return r.ended.Reason != reason.None })
		if r.ended.Reason != reason.FabricTrunkClosed {
			t.Errorf("%s: ended by %v", c.name, r.ended)
		}
	}
	want := datagram(a, b, 0, 5, 64)
	send(t, a, want)
	if got := receive(t, b); !bytes.Equal(got, want) {
		t.Errorf("packet: %x", got)
	}
	if s := f.Attach(2).Info().PortInfo.State; s != smp.PortActive {
		t.Errorf("the port that they had is %v", s)
	}
}

// A program on another host that sends what only switches say, or has frames of no kind, loses its host.
func TestHostileProgramsAtHostsEndAlone(t *testing.T) {
	f := fabrictest.StartRemoteEthernet(t, "star:3", func(*live.Config) {})
	a, b := attachHost(f, 0), attachHost(f, 1)
	_, node, _ := strings.Cut(f.Adapters[2], "/")
	hello, err := attach.Protocol.Message(attach.Hello, attach.HelloBody{Version: attach.Version, Node: node, Port: 1, Network: attach.Ethernet})
	if err != nil {
		t.Fatal(err)
	}
	packet := func(headers int, hops byte, n int) []byte {
		p := make([]byte, 1+headers+n)
		if p[0] = 1; headers > 38 {
			p[1+38] = hops
		}
		return p
	}
	for name, frame := range map[string][]byte{
		"telemetry": packet(39, 1, 124), "telemetry without a payload": packet(39, 1, 24), "more telemetry than there is": packet(39, 255, 100),
		"half of the headers": packet(20, 0, 0), "no payload": packet(39, 0, 0), "a long payload": packet(39, 0, 9023),
	} {
		r := newRogue(t, f)
		r.trunk.Send(time.Since(r.start), append([]byte{2, 2}, hello...))
		r.pump("a port", func() bool { return r.frames > 0 })
		r.trunk.Send(time.Since(r.start), frame)
		r.pump("the end of a program that sent "+name, func() bool { return r.ended.Reason != reason.None })
		if r.ended.Reason != reason.FabricTrunkClosed {
			t.Errorf("%s: ended by %v", name, r.ended)
		}
	}
	a.send(t, b, 0, []byte("still here"))
	if rx := b.receive(t); string(rx.Data) != "still here" {
		t.Errorf("%q", rx.Data)
	}
}

// Datagrams without a session's numbers are counted and change nothing.
func TestPacketsOfNoSessionChangeNothing(t *testing.T) {
	var s dropped
	f := fabrictest.StartRemote(t, "star:2", func(c *live.Config) { c.Remote.Dropped = s.noteRemote })
	a, b := f.Attach(0), f.Attach(1)
	gone := 0
	defer a.Watch(func(_, _ *attach.Info, e attach.Event) {
		if e == attach.FabricGone {
			gone++
		}
	})()
	c, err := net.Dial("udp", place(f).String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	random := rand.New(rand.NewPCG(1, 2))
	const count = 500
	for range count {
		p := make([]byte, 1+random.IntN(1500))
		for i := range p {
			p[i] = byte(random.Uint32())
		}
		copy(p, []byte{trunk.Version, byte(2 + random.IntN(2)), 0, byte(trunk.Program)})
		if _, err := c.Write(p); err != nil {
			t.Fatal(err)
		}
	}
	fabrictest.WaitFor(t, "packets of no session to be counted", func() bool { return s.count(reason.FabricRemoteUnknown) > 0 })
	for seq := range uint32(20) {
		want := datagram(a, b, 0, seq, 1024)
		send(t, a, want)
		if got := receive(t, b); !bytes.Equal(got, want) {
			t.Fatalf("packet %d: %.40x", seq, got)
		}
	}
	if gone > 0 {
		t.Errorf("a session ended %d times", gone)
	}
}
