package live_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"

	"softrdma/internal/fabric/attach"
	"softrdma/internal/fabric/control"
	"softrdma/internal/fabric/fabrictest"
	"softrdma/internal/fabric/hostport"
	"softrdma/internal/fabric/live"
	"softrdma/internal/link"
	"softrdma/internal/link/fabric"
	"softrdma/internal/reason"
	"softrdma/internal/topology"
	"softrdma/internal/wire/ethernet"
	"softrdma/internal/wire/ib"
	"softrdma/internal/wire/mad/smp"
)

// udpPort is that of the tests' programs.
const udpPort = 4791

// A wired is a program at a port of an Ethernet.
type wired struct {
	*fabric.Datagrams
	port *attach.Port
}

func attachHost(f *fabrictest.Fabric, i int) *wired { return newWired(f.AttachHost(i)) }

func newWired(p *attach.Port) *wired {
	return &wired{fabric.NewDatagrams(p.Link(), netip.AddrPortFrom(p.Info().Addrs[0], udpPort)), p}
}

// send sends datagrams of one size, and waits for room.
func (w *wired) send(t *testing.T, to *wired, tos uint8, payloads ...[]byte) {
	t.Helper()
	f, err := w.OpenFlow(to.Local(), 7)
	if err != nil {
		t.Fatal(err)
	}
	defer w.CloseFlow(&f.Flow)
	fabrictest.WaitFor(t, "room", func() bool { return w.Room(w.Level(tos, 0)) })
	b := bytes.Join(payloads, nil)
	if err := w.Send(&link.Tx{Pieces: [][]byte{b}, Bytes: len(b), Size: len(payloads[0]), Flow: &f.Flow, TOS: tos}); err != nil {
		t.Fatal(err)
	}
}

func (w *wired) receive(t *testing.T) *link.Rx {
	t.Helper()
	var rx link.Rx
	fabrictest.WaitFor(t, "a datagram", func() bool {
		ok, err := w.Datagrams.Receive(&rx)
		if err != nil {
			t.Fatal(err)
		}
		return ok
	})
	return &rx
}

func TestDatagramsGoFromHostToHost(t *testing.T) {
	f := fabrictest.StartEthernet(t, "fat-tree:k=4", func(*live.Config) {})
	datagramsGoFromHostToHost(t, attachHost(f, 0), attachHost(f, 15))
}

func TestDatagramsOfIPv6GoFromHostToHost(t *testing.T) {
	f := fabrictest.StartEthernet(t, "fat-tree:k=4", func(*live.Config) {})
	a := newWired(open(t, "test/"+address(f.AttachHost(0), true), hostport.Datagrams, nil))
	b := newWired(open(t, "test/"+address(f.AttachHost(15), true), hostport.Datagrams, nil))
	if !a.Local().Addr().Is6() || a.port.Info().Addrs[0] != a.Local().Addr() {
		t.Fatalf("addresses %v", a.port.Info().Addrs)
	}
	datagramsGoFromHostToHost(t, a, b)
}

// address returns an address of a host.
func address(p *attach.Port, ipv6 bool) string {
	for _, a := range p.Info().Addrs {
		if a.Is6() == ipv6 {
			return a.String()
		}
	}
	return ""
}

// open attaches to a port until the end of the test.
func open(t *testing.T, name string, s hostport.Service, share *attach.Share) *attach.Port {
	t.Helper()
	p, err := attach.OpenService(t.Context(), name, s, share)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return p
}

func datagramsGoFromHostToHost(t *testing.T, a, b *wired) {
	if i := a.port.Info(); i.Ethernet == nil || i.Ethernet.MTU != 9000 || i.Ethernet.SpeedMbps != 100000 || i.PortInfo.State != smp.PortActive {
		t.Errorf("info %+v, %+v", i, i.Ethernet)
	}
	for i := range 100 {
		tos := uint8(i) << 2 // each code point
		want := [][]byte{bytes.Repeat([]byte{byte(i)}, 4096), bytes.Repeat([]byte{byte(i + 1)}, 4096), {1, 2, byte(i)}}
		a.send(t, b, tos, want...)
		for k, w := range want {
			rx := b.receive(t)
			if !bytes.Equal(rx.Data, w) || rx.Src.Addr() != a.Local().Addr() || rx.Src.Port() < 0xc000 || rx.Dst != b.Local() || rx.TOS != tos {
				t.Fatalf("datagram %d of batch %d: %d bytes from %v to %v, TOS %#x", k, i, len(rx.Data), rx.Src, rx.Dst, rx.TOS)
			}
			if rx.HopLimit != 64-5 { // the switches between hosts of different pods
				t.Fatalf("hop limit %d", rx.HopLimit)
			}
		}
	}
	a.send(t, a, 0, []byte("own"))
	if rx := a.receive(t); string(rx.Data) != "own" {
		t.Errorf("to itself: %q", rx.Data)
	}
}

// A program that takes nothing makes a lossless priority wait, from switch to switch, and loses
// nothing. Other priorities continue.
func TestLosslessPriorityWaitsForTheProgram(t *testing.T) {
	losslessPriorityWaitsForTheProgram(t, fabrictest.StartEthernet)
}

func losslessPriorityWaitsForTheProgram(t *testing.T, start starter) {
	var drops atomic.Int64
	f := start(t, "star:2", func(c *live.Config) {
		c.Dropped = func(topology.End, reason.Detail) { drops.Add(1) }
	})
	losslessPriorityWaits(t, attachHost(f, 0), attachHost(f, 1), func() bool { return paused(t, f, "node-0") })
	if n := drops.Load(); n != 0 {
		t.Errorf("%d frames dropped", n)
	}
}

// losslessPriorityWaits sends from a to b, which takes nothing, until a port at the start of the path is
// paused, and expects all of it then.
func losslessPriorityWaits(t *testing.T, a, b *wired, paused func() bool) {
	t.Helper()
	const lossless, size = 3 << 5, 4000
	sent := 0
	room := func() bool { return a.Room(a.Level(lossless, 0)) }
	full := func() bool { // also in the switch: the port has been paused
		for room() {
			a.send(t, b, lossless, bytes.Repeat([]byte{byte(sent)}, size))
			sent++
		}
		return paused()
	}
	fabrictest.WaitFor(t, "a pause", full)
	a.send(t, b, 0, []byte("past"))
	got := 0
	for past := false; !past || got < sent; {
		switch rx := b.receive(t); {
		case string(rx.Data) == "past":
			past = true
		case len(rx.Data) != size || rx.Data[0] != byte(got):
			t.Fatalf("datagram %d: %d bytes that begin with %d", got, len(rx.Data), rx.Data[0])
		default:
			got++
		}
	}
}

// paused reports whether a node's port was paused.
func paused(t *testing.T, f asked, node string) bool {
	t.Helper()
	for _, c := range answer(t, f, control.Request{Verb: control.VerbCounters, Args: []string{node}}).Counters {
		for _, v := range c.Values {
			if strings.HasSuffix(v.Name, "pauses received") {
				return true
			}
		}
	}
	return false
}

// asked is a fabric that answers questions.
type asked interface {
	Ask(question []byte) (answer []byte, err error)
}

func answer(t *testing.T, f asked, r control.Request) (reply control.Reply) {
	t.Helper()
	question, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	b, err := f.Ask(question)
	if err == nil {
		err = json.Unmarshal(b, &reply)
	}
	if err != nil {
		t.Fatal(err)
	}
	return reply
}

// The fabric drops what no port of a host sends, and what no program takes, and continues.
func TestDatagramsThatAreRefused(t *testing.T) {
	why := make(chan reason.Reason, 100)
	f := fabrictest.StartEthernet(t, "star:3", func(c *live.Config) {
		c.Dropped = func(_ topology.End, d reason.Detail) { why <- d.Reason }
	})
	a, b := attachHost(f, 0), attachHost(f, 1)
	forged := &wired{fabric.NewDatagrams(a.port.Link(), netip.MustParseAddrPort("10.0.0.2:4791")), a.port}
	nobody := &wired{fabric.NewDatagrams(a.port.Link(), netip.MustParseAddrPort("10.0.0.3:4791")), a.port}
	absent := &wired{fabric.NewDatagrams(a.port.Link(), netip.MustParseAddrPort("10.9.9.9:4791")), a.port}
	for _, c := range []struct {
		what     string
		from, to *wired
		want     reason.Reason
	}{
		{"another host's address", forged, b, reason.PacketGID},
		{"a host without a program", a, nobody, reason.EthernetNobody},
		{"no host", a, absent, reason.EthernetRoute},
	} {
		c.from.send(t, c.to, 0, []byte("x"))
		if got := <-why; got != c.want {
			t.Errorf("%s: %v, expected %v", c.what, got, c.want)
		}
	}
	long := bytes.Repeat([]byte{1}, 4200)
	a.send(t, b, 0, long)
	if rx := b.receive(t); !bytes.Equal(rx.Data, long) {
		t.Errorf("%d bytes", len(rx.Data))
	}
}

// A port of one network is no device of the other one.
func TestDevicesNameTheirNetwork(t *testing.T) {
	f := fabrictest.StartEthernet(t, "star:2", func(*live.Config) {})
	_, err := attach.Open(context.Background(), f.Adapters[0])
	if err == nil || !strings.Contains(err.Error(), "fabric test is Ethernet: expected a device of it, eth:"+f.Adapters[0]+":1") {
		t.Error(err)
	}
	attachHost(f, 0)
	_, err = attach.OpenService(context.Background(), f.Adapters[0], hostport.Datagrams, nil)
	if want := "share the port by softrdma daemon -d eth:test/node-0:1"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, expected %q", err, want)
	}
	g := fabrictest.Start(t, "star:2")
	_, err = attach.OpenService(context.Background(), g.Adapters[0], hostport.Datagrams, nil)
	if err == nil || !strings.Contains(err.Error(), "fabric test is InfiniBand: expected a device of it, ib:"+g.Adapters[0]+":1") {
		t.Error(err)
	}
}

// A host whose cable is cut has a port that is down, until the cable is back. A path that is cut
// between switches is replaced.
func TestCablesOfAnEthernet(t *testing.T) {
	f := fabrictest.StartEthernet(t, "fat-tree:k=4", func(*live.Config) {})
	a, b := attachHost(f, 0), attachHost(f, 15)
	state := func(want smp.PortState) func() bool {
		return func() bool { return a.port.Info().PortInfo.State == want }
	}
	answer(t, f, control.Request{Verb: control.VerbLinkDown, Args: []string{"node-0"}})
	fabrictest.WaitFor(t, "a port that is down", state(smp.PortDown))
	answer(t, f, control.Request{Verb: control.VerbLinkUp, Args: []string{"node-0"}})
	fabrictest.WaitFor(t, "a port that is active", state(smp.PortActive))
	for i, spine := range []string{"spine-0-0", "spine-0-1"} {
		answer(t, f, control.Request{Verb: control.VerbFail, Args: []string{spine}})
		want := fmt.Sprintf("without %d", i)
		a.send(t, b, 0, []byte(want))
		if rx := b.receive(t); string(rx.Data) != want {
			t.Errorf("%q, expected %q", rx.Data, want)
		}
		answer(t, f, control.Request{Verb: control.VerbRepair, Args: []string{spine}})
	}
}

// A host that has a network stack of its own learns where the others are, and its frames pass as they
// are. Frames with another source do not.
func TestFramesOfAHost(t *testing.T) {
	why := make(chan reason.Reason, 100)
	f := fabrictest.StartEthernet(t, "star:2", func(c *live.Config) {
		c.Dropped = func(_ topology.End, d reason.Detail) { why <- d.Reason }
	})
	ctx := context.Background()
	p, err := attach.OpenService(ctx, f.Adapters[0], hostport.WholeFrames, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	frames, b := fabric.NewFrames(p.Link()), attachHost(f, 1)
	mac := ethernet.MAC(p.Info().Ethernet.MAC)
	receive := func() []byte {
		buffer := make([]byte, fabric.MaxFrame)
		n := 0
		fabrictest.WaitFor(t, "a frame", func() bool {
			if n, err = frames.Receive(buffer); err != nil {
				t.Fatal(err)
			}
			return n > 0 && typeOf(buffer[:n]) != ethernet.TypeLLDP
		})
		return buffer[:n]
	}
	send := func(frame []byte) {
		t.Helper()
		if err := frames.Send(0, frame); err != nil {
			t.Fatal(err)
		}
	}
	ask := func(target string) []byte {
		request := make([]byte, ethernet.HeaderLen)
		(&ethernet.Header{Dst: ethernet.MAC{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, Src: mac, Type: ethernet.TypeARP}).Put(request)
		request = append(request, 0, 1, 8, 0, 6, 4, 0, 1)
		request = append(append(request, mac[:]...), p.Info().Addrs[0].AsSlice()...)
		return append(append(request, 0, 0, 0, 0, 0, 0), netip.MustParseAddr(target).AsSlice()...)
	}
	send(ask("10.0.0.9")) // no host
	send(ask("10.0.0.2"))
	reply := receive()
	gateway := ethernet.MAC(reply[6:12])
	want := append([]byte{0, 1, 8, 0, 6, 4, 0, 2}, gateway[:]...)
	want = append(append(append(want, 10, 0, 0, 2), mac[:]...), 10, 0, 0, 1)
	if !bytes.Equal(reply[:6], mac[:]) || !bytes.Equal(reply[ethernet.HeaderLen:], want) {
		t.Fatalf("answer % x, expected % x", reply, want)
	}
	solicit := func(src netip.Addr, target string) []byte { // RFC 4861 4.3
		request := make([]byte, 14+40+24)
		dst := netip.MustParseAddr(target)
		at := (&ethernet.Header{Dst: ethernet.GroupMAC(netip.MustParseAddr("ff02::1:ff00:2")), Src: mac, Type: ethernet.TypeIPv6}).Put(request)
		at += ib.PutIP(request[at:], src, netip.MustParseAddr("ff02::1:ff00:2"), 0, 255, 0, 24)
		request[14+6], request[at] = 58, 135
		copy(request[at+8:], dst.AsSlice())
		return request
	}
	own, other := netip.MustParseAddr(address(p, true)), netip.MustParseAddr("fd00::a00:2")
	send(solicit(own, "fd00::a00:9")) // no host
	send(solicit(own, "fd00::a00:2"))
	reply = receive()
	m := reply[14+40:]
	if [6]byte(reply) != mac || [6]byte(reply[6:]) != gateway || m[0] != 136 || [16]byte(m[8:]) != other.As16() || m[24] != 2 || [6]byte(m[26:]) != gateway {
		t.Errorf("advertisement % x", reply)
	}
	if got := ib.Checksum(58, other, own, m); got != 0xffff {
		t.Errorf("its checksum leaves %#x", got)
	}
	send(solicit(netip.IPv6Unspecified(), "fd00::a00:2")) // whether an address is free (RFC 4862 5.4.2, RFC 4861 7.2.4)
	reply = receive()
	everyone := netip.MustParseAddr("ff02::1")
	if to := [16]byte(reply[14+24:]); [6]byte(reply) != ethernet.GroupMAC(everyone) || to != everyone.As16() || reply[14+40+4] != 0x20 {
		t.Errorf("advertisement to a host without an address % x", reply)
	}
	packet := func(src ethernet.MAC, payload string) []byte {
		frame := make([]byte, 42)
		at := (&ethernet.Header{Dst: gateway, Src: src, Type: ethernet.TypeIPv4}).Put(frame)
		at += ib.PutIP(frame[at:], p.Info().Addrs[0], b.Local().Addr(), 0, 64, 0, 8+len(payload))
		ib.PutUDP(frame[at:], 1234, udpPort, len(payload), 0)
		return append(frame, payload...)
	}
	send(packet(gateway, "forged"))
	if got := <-why; got != reason.EthernetForeign {
		t.Errorf("another source: %v", got)
	}
	send(packet(mac, "hello"))
	rx := b.receive(t)
	if string(rx.Data) != "hello" || rx.Src != netip.AddrPortFrom(p.Info().Addrs[0], 1234) {
		t.Errorf("%q from %v", rx.Data, rx.Src)
	}
	b.send(t, &wired{fabric.NewDatagrams(nil, rx.Src), nil}, 0, []byte("answer"))
	if got := receive(); !bytes.HasSuffix(got, []byte("answer")) || !bytes.Equal(got[:6], mac[:]) || !bytes.Equal(got[6:12], gateway[:]) {
		t.Errorf("frame % x", got)
	}
	mapped := make([]byte, 14+40+20) // a segment to the IPv4 address as one of IPv6, which is in no packet (RFC 4038 4.2)
	at := (&ethernet.Header{Dst: gateway, Src: mac, Type: ethernet.TypeIPv6}).Put(mapped)
	ib.PutIP(mapped[at:], own, netip.AddrFrom16(b.Local().Addr().As16()), 0, 64, 0, 20)
	mapped[at+6] = 6
	send(mapped)
	if got := <-why; got != reason.EthernetDatagram {
		t.Errorf("a mapped address: %v", got)
	}
	send(make([]byte, 5))
	if got := <-why; got != reason.EthernetLength {
		t.Errorf("a short frame: %v", got)
	}
}

// A host has one cable, to a switch: others would have no address, or frames would take another one.
func TestHostsOfAnEthernetHaveOneCable(t *testing.T) {
	parse := func(text string) *topology.Fabric {
		t.Helper()
		f, _, err := topology.Parse("test", text)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	for _, c := range []struct{ text, want string }{
		{"Switch 2 \"S\"\n[1] \"H\"[1]\n[2] \"H\"[2]\nCa 2 \"H\"\n", "from H port 2 to S port 2"},
		{"Ca 1 \"H\"\n[1] \"G\"[1]\nCa 1 \"G\"\n", "from H port 1 to G port 1"},
	} {
		_, err := live.Start(live.Config{Name: "test", Directory: t.TempDir(), Fabric: parse(c.text), Ethernet: &live.Ethernet{}})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, expected %q", err, c.want)
		}
	}
	fabrictest.StartEthernet(t, "star:2", func(c *live.Config) {
		c.Fabric = parse("Switch 2 \"S\"\n[1] \"H\"[1]\nCa 2 \"H\"\nCa 1 \"G\"\n")
	})
	for _, name := range []string{"test/H:2", "test/G"} {
		if _, err := attach.OpenService(context.Background(), name, hostport.Datagrams, nil); err == nil || !strings.Contains(err.Error(), "has no cable") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
