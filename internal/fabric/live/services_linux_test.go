package live_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"softrdma/internal/fabric/attach"
	"softrdma/internal/fabric/fabrictest"
	"softrdma/internal/fabric/hostport"
	"softrdma/internal/fabric/live"
	"softrdma/internal/link"
	"softrdma/internal/link/fabric"
	"softrdma/internal/reason"
	"softrdma/internal/topology"
	"softrdma/internal/wire/ethernet"
	"softrdma/internal/wire/ib"
)

// packetTo is the start of a packet of RoCE, from BTH on, to a queue pair.
func packetTo(qpn uint32) []byte {
	b := make([]byte, ib.BTHLen)
	binary.BigEndian.PutUint32(b[ib.DestQPNOffset:], qpn)
	return b
}

// Programs share a service of a host by a key. Queue pair numbers say whose packets are whose, and queue
// pair 1 is that of the first program.
func TestProgramsShareAHostOfAnEthernet(t *testing.T) {
	f := fabrictest.StartEthernet(t, "star:2", func(*live.Config) {})
	key := bytes.Repeat([]byte{7}, attach.MinKey)
	from := attachHost(f, 0)
	for _, name := range []string{f.Adapters[1], "test/" + address(from.port, true)} {
		var lanes []*wired
		for lane := range 3 {
			lanes = append(lanes, newWired(open(t, name, hostport.Datagrams, &attach.Share{Key: key, Lane: lane, Of: 3})))
		}
		sender := from
		if lanes[0].Local().Addr().Is6() {
			sender = lanes[0]
		}
		for qpn, lane := range map[uint32]int{1: 0, 300: 0, 301: 1, 302: 2} {
			want := packetTo(qpn)
			sender.send(t, lanes[0], 0, want)
			if rx := lanes[lane].receive(t); !bytes.Equal(rx.Data, want) {
				t.Errorf("to queue pair %d: lane %d got % x", qpn, lane, rx.Data)
			}
		}
		for _, share := range []*attach.Share{nil, {Key: bytes.Repeat([]byte{8}, attach.MinKey), Lane: 0, Of: 3}} {
			_, err := attach.OpenService(t.Context(), name, hostport.Datagrams, share)
			if want := "share the port by softrdma daemon -d eth:test/"; err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, expected %q", err, want)
			}
		}
	}
}

// A host with a network stack of its own leaves no place for programs, and they none for it.
func TestWholeFramesAndServicesExcludeEachOther(t *testing.T) {
	f := fabrictest.StartEthernet(t, "star:2", func(*live.Config) {})
	p := open(t, f.Adapters[0], hostport.RoCEFrames, nil)
	if _, err := attach.OpenService(t.Context(), f.Adapters[0], hostport.WholeFrames, nil); err == nil || !strings.Contains(err.Error(), "end it first") {
		t.Error(err)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	open(t, f.Adapters[0], hostport.WholeFrames, nil)
	for _, s := range []hostport.Service{hostport.Datagrams, hostport.RoCEFrames, hostport.Segments, hostport.WholeFrames} {
		if _, err := attach.OpenService(t.Context(), f.Adapters[0], s, nil); err == nil || !strings.Contains(err.Error(), "has the host alone: end it first") {
			t.Errorf("service %d: %v", s, err)
		}
	}
	share := &attach.Share{Key: make([]byte, attach.MinKey), Of: 2}
	for _, s := range []hostport.Service{hostport.Segments, hostport.WholeFrames, hostport.WholeFrames + 1} {
		if _, err := attach.OpenService(t.Context(), f.Adapters[1], s, share); err == nil || !strings.Contains(err.Error(), "FABRIC_MESSAGE") && !strings.Contains(err.Error(), "message") {
			t.Errorf("service %d is shared: %v", s, err)
		}
	}
}

// A framed is a program of RoCE v1 at a port.
type framed struct {
	*fabric.RoCEv1
	port *attach.Port
	gid  netip.Addr
}

func newFramed(p *attach.Port) *framed {
	i := p.Info()
	return &framed{fabric.NewRoCEv1(p.Link(), i.Ethernet.MAC, i.Node), p, i.Addrs[0]}
}

// frame returns a frame of RoCE v1.
func frame(from *framed, src, dst netip.Addr, to [6]byte, payload []byte) []byte {
	b := make([]byte, ethernet.HeaderLen+ib.GRHLen)
	at := (&ethernet.Header{Dst: to, Src: from.MAC(), Type: ethernet.TypeRoCE}).Put(b)
	g := ib.GRH{PayLen: uint16(len(payload)), NextHeader: ib.NextBTH, HopLimit: 64, SGID: src.As16(), DGID: dst.As16()}
	g.Put(b[at:])
	return append(b, payload...)
}

func (x *framed) send(t *testing.T, frame []byte) {
	t.Helper()
	if err := x.Send(&link.Tx{Pieces: [][]byte{frame}, Bytes: len(frame), Size: len(frame)}); err != nil {
		t.Fatal(err)
	}
}

func (x *framed) receive(t *testing.T) []byte {
	t.Helper()
	var rx link.Rx
	fabrictest.WaitFor(t, "a frame", func() bool {
		ok, err := x.Receive(&rx)
		if err != nil {
			t.Fatal(err)
		}
		return ok
	})
	return rx.Data
}

// Frames of RoCE v1 cross several switches to the MAC address of a host, or stay at their own.
func TestFramesOfRoCEv1(t *testing.T) {
	why := make(chan reason.Reason, 100)
	f := fabrictest.StartEthernet(t, "fat-tree:k=4", func(c *live.Config) {
		c.Dropped = func(_ topology.End, d reason.Detail) { why <- d.Reason }
	})
	a, b := newFramed(open(t, f.Adapters[0], hostport.RoCEFrames, nil)), newFramed(open(t, f.Adapters[15], hostport.RoCEFrames, nil))
	own := newFramed(open(t, "test/"+address(a.port, true), hostport.RoCEFrames, nil))
	if n, err := a.Known(b.gid); n.Known || err != nil {
		t.Errorf("%+v, %v", n, err)
	}
	mac, err := a.Ask(b.gid, 0)
	if n, _ := a.Known(b.gid); err != nil || mac != b.MAC() || n.MAC != mac {
		t.Fatalf("MAC %v, expected %v, error %v", mac, b.MAC(), err)
	}
	if _, err := a.Ask(netip.MustParseAddr("10.9.9.9"), 0); err == nil {
		t.Error("a host that is not there has a MAC address")
	}
	for i := range uint32(300) {
		want := frame(a, a.gid, b.gid, mac, packetTo(300+i))
		a.send(t, want)
		if got := b.receive(t); !bytes.HasPrefix(got, want) {
			t.Fatalf("% x, expected % x", got, want)
		}
	}
	a.send(t, frame(a, a.gid, own.gid, [6]byte{}, packetTo(7)))
	if got := own.receive(t); [6]byte(got) != a.MAC() || !bytes.Contains(got, packetTo(7)) {
		t.Errorf("to its own host: % x", got)
	}
	for _, c := range []struct {
		what  string
		frame []byte
		want  reason.Reason
	}{
		{"another host's GID", frame(a, b.gid, b.gid, mac, packetTo(1)), reason.PacketGID},
		{"no packet", frame(a, a.gid, b.gid, mac, nil), reason.EthernetLength},
		{"another host's MAC address", frame(&framed{b.RoCEv1, nil, a.gid}, a.gid, b.gid, mac, packetTo(1)), reason.EthernetForeign},
		{"a GID without a program", frame(a, a.gid, netip.MustParseAddr(address(b.port, true)), mac, packetTo(1)), reason.EthernetNobody},
	} {
		a.send(t, c.frame)
		if got := <-why; got != c.want {
			t.Errorf("%s: %v, expected %v", c.what, got, c.want)
		}
	}
}

// A datagram to a group comes to each member once, also over links in a circle, to the sender's own host
// as well, and to no other program. A port joins again after the fabric has gone and come back.
func TestGroupsOfAnEthernet(t *testing.T) {
	f := fabrictest.StartEthernet(t, "torus:3x3,hosts=1", func(*live.Config) {})
	groups := []netip.Addr{netip.MustParseAddr("239.1.2.3"), netip.MustParseAddr("ff0e::77")}
	for i, g := range groups {
		var all []*wired
		for h := range f.Adapters {
			p := f.AttachHost(h)
			if g.Is6() {
				p = open(t, "test/"+address(p, true), hostport.Datagrams, nil)
			}
			w := newWired(p)
			if h != 4 {
				if err := w.Join(g); err != nil {
					t.Fatal(err)
				}
			}
			all = append(all, w)
			if err := w.Join(groups[1-i]); err == nil {
				t.Error("joined a group of the other family")
			}
		}
		everywhere := &wired{fabric.NewDatagrams(nil, netip.AddrPortFrom(g, udpPort)), nil}
		toGroup := func(want string) {
			t.Helper()
			all[0].send(t, everywhere, 0, []byte(want))
			for h, w := range all {
				if h == 4 {
					continue
				}
				if rx := w.receive(t); string(rx.Data) != want || rx.Dst.Addr() != g {
					t.Fatalf("host %d: %q to %v", h, rx.Data, rx.Dst)
				}
			}
			for h, w := range all { // what comes next is what is sent next: there was one copy
				all[1].send(t, w, 0, []byte("only"))
				if rx := w.receive(t); string(rx.Data) != "only" {
					t.Fatalf("host %d: a second copy %q", h, rx.Data)
				}
			}
		}
		// joined waits until the fabric knows of all members, and takes what was sent before.
		joined := func() {
			t.Helper()
			for h, w := range all {
				var rx link.Rx
				fabrictest.WaitFor(t, "host to be a member", func() bool {
					if h == 4 {
						return true
					}
					all[0].send(t, everywhere, 0, []byte("member"))
					ok, err := w.Datagrams.Receive(&rx)
					if err != nil {
						t.Fatal(err)
					}
					return ok
				})
			}
			all[0].send(t, everywhere, 0, []byte("last"))
			for h, w := range all {
				for h != 4 && string(w.receive(t).Data) != "last" {
				}
			}
		}
		joined()
		for n := range 20 {
			toGroup(fmt.Sprint(n))
		}
		f.Restart()
		for _, w := range all {
			fabrictest.WaitFor(t, "the port to be back", func() bool { return w.port.Info().Up })
		}
		joined()
		toGroup("again")
		for h, w := range all {
			if h != 4 {
				if err := w.Leave(g); err != nil {
					t.Fatal(err)
				}
			}
			if err := w.port.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// A program that takes nothing does not keep packets from one that comes to its host later.
func TestStoppedProgramDelaysNoLaterOne(t *testing.T) {
	f := fabrictest.StartEthernet(t, "star:2", func(*live.Config) {})
	from, stopped := attachHost(f, 0), attachHost(f, 1)
	flow, err := from.OpenFlow(stopped.Local(), 7)
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 8<<10)
	for range 1 << 10 { // more than the ring and the buffer of the port hold
		fabrictest.WaitFor(t, "room", func() bool { return from.Room(0) })
		if err := from.Send(&link.Tx{Pieces: [][]byte{b}, Bytes: len(b), Size: len(b), Flow: &flow.Flow}); err != nil {
			t.Fatal(err)
		}
	}
	late := newFramed(open(t, f.Adapters[1], hostport.RoCEFrames, nil))
	sender := newFramed(open(t, f.Adapters[0], hostport.RoCEFrames, nil))
	want := frame(sender, sender.gid, late.gid, late.MAC(), packetTo(7))
	var rx link.Rx
	fabrictest.WaitFor(t, "a frame", func() bool { // the full buffer drops some
		sender.send(t, want)
		ok, err := late.Receive(&rx)
		if err != nil {
			t.Fatal(err)
		}
		return ok
	})
	if !bytes.HasPrefix(rx.Data, want) {
		t.Errorf("% x, expected % x", rx.Data, want)
	}
}
