package live_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"net/netip"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"softrdma/internal/fabric/attach"
	"softrdma/internal/fabric/fabrictest"
	"softrdma/internal/fabric/live"
	"softrdma/internal/fabric/subnet"
	"softrdma/internal/link"
	"softrdma/internal/management/sm"
	"softrdma/internal/reason"
	"softrdma/internal/topology"
	"softrdma/internal/wire/ib"
	"softrdma/internal/wire/mad"
	"softrdma/internal/wire/mad/smp"
)

// A starter runs a fabric, for programs on this host or on others.
type starter func(t testing.TB, shape string, change func(*live.Config)) *fabrictest.Fabric

// here runs a test with programs on the fabric's host. TestFromAnotherHost runs it as well.
func here(t *testing.T, test func(*testing.T, starter)) { test(t, fabrictest.StartWith) }

// datagram is a packet of a service level between two ports, from LRH to ICRC.
func datagram(from, to *attach.Port, sl uint8, seq uint32, n int) []byte {
	payload := make([]byte, n)
	binary.BigEndian.PutUint32(payload, seq)
	p := ib.Packet{BTH: ib.BTH{Opcode: ib.UDSendOnly, PKey: smp.DefaultPKey, DestQPN: 77}, Payload: payload}
	h := ib.LRH{Next: ib.LocalBTH, SL: sl, DLID: ib.LID(to.Info().PortInfo.LID), SLID: ib.LID(from.Info().PortInfo.LID)}
	b := ib.AppendNative(nil, h, nil, &p)
	return b[:len(b)-ib.VCRCLen]
}

// send sends packets of one size as one batch.
func send(t *testing.T, p *attach.Port, packets ...[]byte) {
	t.Helper()
	fabrictest.WaitFor(t, "room", func() bool { return p.Link().Room(packets[0][1] >> 4) })
	b := bytes.Join(packets, nil)
	if err := p.Link().Send(&link.Tx{Pieces: [][]byte{b}, Bytes: len(b), Size: len(packets[0])}); err != nil {
		t.Fatal(err)
	}
}

// unread has the packets of each port's last batch that receive has not returned.
var unread = make(map[*attach.Port]link.Rx)

// receive waits for a packet.
func receive(t *testing.T, p *attach.Port) []byte {
	t.Helper()
	if rx, ok := unread[p]; ok {
		return first(p, rx)
	}
	var rx link.Rx
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); {
		ok, err := p.Link().Receive(&rx)
		if err != nil {
			t.Fatal(err)
		}
		if ok {
			return first(p, rx)
		}
		if err := p.Link().Wait(time.Second); err != nil {
			t.Fatal(err)
		}
	}
	t.Fatal("no packet")
	return nil
}

// first returns the first packet of a batch, and leaves the others to the next call.
func first(p *attach.Port, rx link.Rx) []byte {
	b := rx.Data[:min(rx.Size, len(rx.Data))]
	if rx.Data = rx.Data[len(b):]; len(rx.Data) > 0 {
		unread[p] = rx
	} else {
		delete(unread, p)
	}
	return b
}

func TestPacketsGoFromProgramToProgram(t *testing.T) { here(t, packetsGoFromProgramToProgram) }

func packetsGoFromProgramToProgram(t *testing.T, start starter) {
	f := start(t, "star:3", func(*live.Config) {})
	a, b := f.Attach(0), f.Attach(1)
	if i := a.Info(); !i.Up || i.Port != 1 || len(i.PKeys) != 128 || i.PKeys[0] != smp.DefaultPKey || i.GUIDs[0] != i.NodeInfo.PortGUID ||
		len(i.Addrs) != 1 || i.Addrs[0] != netip.MustParseAddr("10.77.0.1") || i.NodeInfo.Type != smp.Adapter {
		t.Errorf("info: %+v", i)
	}
	if lid, _ := a.Link().LID(); uint16(lid) != a.Info().PortInfo.LID {
		t.Errorf("the link has LID %d", lid)
	}
	for seq := range uint32(200) {
		want := [][]byte{datagram(a, b, 0, 3*seq, 4096), datagram(a, b, 0, 3*seq+1, 4096), datagram(a, b, 0, 3*seq+2, 64)}
		send(t, a, want...)
		for i, w := range want {
			if got := receive(t, b); !bytes.Equal(got, w) {
				t.Fatalf("packet %d of batch %d: %x, expected %x", i, seq, got, w)
			}
		}
		answer := datagram(b, a, 0, seq, 8)
		send(t, b, answer)
		if got := receive(t, a); !bytes.Equal(got, answer) {
			t.Fatalf("answer %d: %x", seq, got)
		}
	}
	own := datagram(a, a, 0, 1, 8)
	send(t, a, own)
	if got := receive(t, a); !bytes.Equal(got, own) {
		t.Errorf("packet to itself: %x", got)
	}
}

// What a program has sent before it ends arrives.
func TestPacketsOfAProgramThatEndsLeave(t *testing.T) { here(t, packetsOfAProgramThatEndsLeave) }

func packetsOfAProgramThatEndsLeave(t *testing.T, start starter) {
	f := start(t, "star:2", func(*live.Config) {})
	a, b := f.Attach(0), f.Attach(1)
	busy, free := make(chan struct{}), make(chan struct{})
	go f.Do(func(time.Duration, *subnet.Subnet, *sm.Manager) {
		close(busy)
		<-free
	})
	<-busy
	var want [][]byte
	for seq := range uint32(20) {
		want = append(want, datagram(a, b, 0, seq, 256))
		send(t, a, want[seq])
	}
	time.AfterFunc(100*time.Millisecond, func() { close(free) }) // the connection ends before the fabric looks at the ring
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	for i, w := range want {
		if got := receive(t, b); !bytes.Equal(got, w) {
			t.Fatalf("packet %d: %x, expected %x", i, got, w)
		}
	}
}

// The next program gets the port of one that has ended, although the fabric, which was busy,
// hears of the next one first.
func TestPortOfAProgramThatHasEndedIsFree(t *testing.T) {
	f := fabrictest.Start(t, "star:2")
	a := f.Attach(0)
	busy, free := make(chan struct{}), make(chan struct{})
	go f.Do(func(time.Duration, *subnet.Subnet, *sm.Manager) {
		close(busy)
		<-free
	})
	<-busy
	opened := make(chan error)
	go func() {
		p, err := attach.Open(t.Context(), f.Adapters[0])
		if err == nil {
			err = p.Close()
		}
		opened <- err
	}()
	time.Sleep(100 * time.Millisecond) // the question waits for the fabric: if it comes later it is answered all the same
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	close(free)
	if err := <-opened; err != nil {
		t.Fatal(err)
	}
}

// A program that does not read one service level stops neither another one nor the sender
// of others, and nothing is lost.
func TestAServiceLevelThatStandsStillStopsNoOther(t *testing.T) {
	here(t, aServiceLevelThatStandsStillStopsNoOther)
}

func aServiceLevelThatStandsStillStopsNoOther(t *testing.T, start starter) {
	var dropped atomic.Int64
	f := start(t, "star:2", func(c *live.Config) {
		c.Dropped = func(_ topology.End, d reason.Detail) {
			if d.Reason != reason.FabricRoute { // traps of switches without a table
				dropped.Add(1)
			}
		}
	})
	a, b := f.Attach(0), f.Attach(1)
	sent := uint32(0)
	for still := time.Now(); time.Since(still) < 200*time.Millisecond || sent < 100 && time.Since(still) < 20*time.Second; {
		if !a.Link().Room(1) {
			time.Sleep(time.Millisecond)
			continue
		}
		send(t, a, datagram(a, b, 1, sent, 2048))
		sent++
		still = time.Now()
	}
	if sent < 100 {
		t.Fatalf("room for %d packets", sent)
	}
	// b has not read at all yet. The rings of service level 0 are free.
	arrived := func() (words uint64) {
		f.Do(func(_ time.Duration, s *subnet.Subnet, _ *sm.Manager) {
			words = s.Node(nodeOf(s, b)).Counters(1).SLRcvData[0]
		})
		return words
	}
	before := arrived()
	send(t, a, datagram(a, b, 0, 1<<30, 8))
	fabrictest.WaitFor(t, "the packet", func() bool { return arrived() > before })
	// On this host the packet is in the program's ring. From another host it may still be on its way,
	// but not behind all others.
	most := uint32(64)
	if strings.Contains(f.Name, "@") {
		most = sent - 100
	}
	seen, next := false, uint32(0)
	for i := uint32(0); i <= sent; i++ {
		p := receive(t, b)
		seq := binary.BigEndian.Uint32(p[ib.LRHLen+ib.BTHLen+ib.DETHLen:])
		if seq == 1<<30 {
			seen = true
			if next > most {
				t.Errorf("the packet of service level 0 came behind %d of service level 1", next)
			}
			continue
		}
		if seq != next {
			t.Fatalf("packet %d, expected %d", seq, next)
		}
		next++
	}
	if !seen || dropped.Load() != 0 {
		t.Errorf("service level 0 arrived: %v, dropped: %d", seen, dropped.Load())
	}
}

func TestASecondProgramIsRefused(t *testing.T) { here(t, aSecondProgramIsRefused) }

func aSecondProgramIsRefused(t *testing.T, start starter) {
	f := start(t, "star:2", func(*live.Config) {})
	p := f.Attach(0)
	try := func(address string, want reason.Reason) {
		t.Helper()
		_, err := attach.Open(t.Context(), address)
		var named *reason.Error
		if !errors.As(err, &named) || named.Detail.Reason != want {
			t.Errorf("%s: %v, expected %v", address, err, want)
		}
	}
	try(f.Adapters[0], reason.FabricHeld)
	try(f.Adapters[0]+":2", reason.FabricNode)
	try(f.Name+"/nowhere", reason.FabricNode)
	try("other/H1", reason.FabricAbsent)
	try("none", reason.FabricAddress)
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	q, err := attach.Open(t.Context(), f.Adapters[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := q.Close(); err != nil {
		t.Error(err)
	}
}

func TestPortsComeBackWithTheNextFabric(t *testing.T) { here(t, portsComeBackWithTheNextFabric) }

func portsComeBackWithTheNextFabric(t *testing.T, start starter) {
	f := start(t, "star:2", func(*live.Config) {})
	a, b := f.Attach(0), f.Attach(1)
	events := make(chan attach.Event, 100)
	stop := a.Watch(func(_, _ *attach.Info, e attach.Event) { events <- e })
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	fabrictest.WaitFor(t, "a port that is down", func() bool { return !a.Info().Up && !b.Info().Up })
	if s := a.Info().PortInfo.State; s != smp.PortDown {
		t.Errorf("state %v without a fabric", s)
	}
	if err := a.Link().Send(&link.Tx{Pieces: [][]byte{make([]byte, 64)}, Bytes: 64, Size: 64}); err == nil {
		t.Error("sent without a fabric")
	}
	f.Restart()
	active := func(p *attach.Port) bool { return p.Info().Up && p.Info().PortInfo.State == smp.PortActive }
	fabrictest.WaitFor(t, "active ports", func() bool { return active(a) && active(b) })
	want := datagram(a, b, 0, 7, 256)
	send(t, a, want)
	if got := receive(t, b); !bytes.Equal(got, want) {
		t.Errorf("packet: %x", got)
	}
	stop()
	seen := map[attach.Event]bool{}
	for len(events) > 0 {
		seen[<-events] = true
	}
	for _, e := range []attach.Event{attach.PortError, attach.FabricGone, attach.FabricBack, attach.PortActive} {
		if !seen[e] {
			t.Errorf("event %d was not told: %v", e, seen)
		}
	}
}

func TestDirectedRoutesFromAProgram(t *testing.T) { here(t, directedRoutesFromAProgram) }

func directedRoutesFromAProgram(t *testing.T, start starter) {
	f := start(t, "star:2", func(*live.Config) {})
	p := f.Attach(0)
	got := make(chan smp.Packet, 1)
	p.HandleMAD(func(a *attach.Arrival) bool {
		var x smp.Packet
		x.Parse(a.MAD)
		got <- x
		return true
	})
	for _, route := range [][]uint8{nil, {1}, {1, 2}} {
		q := smp.NewDirected(mad.MethodGet, smp.AttrNodeInfo, 0, 5, 0, route)
		d := attach.Departure{DLID: smp.PermissiveLID}
		q.Put(&d.MAD)
		if err := p.SendMAD(&d); err != nil {
			t.Fatal(err)
		}
		var n smp.NodeInfo
		x := <-got
		n.Parse(&x.Data)
		if x.Status != 0 || n.NodeGUID == 0 || len(route)%2 == 0 != (n.Type == smp.Adapter) {
			t.Errorf("route %v: status %d, %+v", route, x.Status, n)
		}
	}
	if err := p.SetSM(true); err != nil {
		t.Fatal(err)
	}
	fabrictest.WaitFor(t, "IsSM", func() bool { return p.Info().PortInfo.CapabilityMask&smp.CapSM != 0 })
}

// Packets of queue pair 1 that no agent answers are the program's, as frames.
func TestQueuePair1(t *testing.T) { here(t, queuePair1) }

func queuePair1(t *testing.T, start starter) {
	f := start(t, "star:2", func(*live.Config) {})
	a, b := f.Attach(0), f.Attach(1)
	packet := func(class, method uint8) []byte {
		var m [mad.Len]byte
		m[0], m[1], m[2], m[3] = mad.BaseVersion, class, 1, method
		p := ib.Packet{BTH: ib.BTH{Opcode: ib.UDSendOnly, PKey: smp.DefaultPKey, DestQPN: mad.GSIQPN}, DETH: ib.DETH{QKey: mad.GSIQKey, SrcQPN: mad.GSIQPN}, Payload: m[:]}
		h := ib.LRH{Next: ib.LocalBTH, DLID: ib.LID(b.Info().PortInfo.LID), SLID: ib.LID(a.Info().PortInfo.LID)}
		x := ib.AppendNative(nil, h, nil, &p)
		return x[:len(x)-ib.VCRCLen]
	}
	const vendorClass = 0x32
	want := packet(vendorClass, mad.MethodGet)
	send(t, a, want)
	if got := receive(t, b); !bytes.Equal(got, want) {
		t.Errorf("vendor class: %x", got)
	}
	send(t, a, packet(mad.ClassPerformance, mad.MethodGet))
	var n ib.Packet
	if got := receive(t, a); n.Parse(got[ib.LRHLen:]) != ib.OK || n.Payload[1] != mad.ClassPerformance || n.Payload[3] != mad.MethodGetResponse {
		t.Errorf("answer of the performance agent: %x", got)
	}
}

// nodeOf returns the node to which a port belongs.
func nodeOf(s *subnet.Subnet, p *attach.Port) (node int) {
	for s.Agent(node).NodeInfo(1).NodeGUID != p.Info().NodeInfo.NodeGUID {
		node++
	}
	return node
}

func TestCutCable(t *testing.T) { here(t, cutCable) }

func cutCable(t *testing.T, start starter) {
	f := start(t, "star:2", func(*live.Config) {})
	a := f.Attach(0)
	at := topology.End{Port: 1}
	f.Do(func(_ time.Duration, s *subnet.Subnet, _ *sm.Manager) {
		at.Node = nodeOf(s, a)
		s.Cut(at)
	})
	fabrictest.WaitFor(t, "a port that is down", func() bool { return a.Info().PortInfo.State == smp.PortDown })
	f.Do(func(_ time.Duration, s *subnet.Subnet, _ *sm.Manager) { s.Repair(at) })
	fabrictest.WaitFor(t, "an active port", func() bool { return a.Info().PortInfo.State == smp.PortActive })
}

func TestAddressesOfPorts(t *testing.T) { here(t, addressesOfPorts) }

func addressesOfPorts(t *testing.T, start starter) {
	f := start(t, "star:2", func(*live.Config) {})
	p := f.Attach(1)
	b := p.Info()
	for _, ip := range []string{"10.77.0.2", "::ffff:10.77.0.2"} {
		gid, err := p.FindGID(t.Context(), netip.MustParseAddr(ip))
		if err != nil {
			t.Fatal(err)
		}
		if got := gid.As16(); binary.BigEndian.Uint64(got[:]) != b.PortInfo.GIDPrefix || binary.BigEndian.Uint64(got[8:]) != b.GUIDs[0] {
			t.Errorf("%s: GID %v", ip, gid)
		}
	}
	_, err := p.FindGID(t.Context(), netip.MustParseAddr("10.77.0.9"))
	var named *reason.Error
	if !errors.As(err, &named) || named.Detail.Reason != reason.AddressUnreachable || !strings.Contains(err.Error(), "no port of fabric test has the IP address 10.77.0.9") {
		t.Errorf("an address that no port has: %v", err)
	}
}

func TestControl(t *testing.T) {
	fabrictest.StartWith(t, "star:2", func(c *live.Config) {
		c.Control = func(_ time.Duration, s *subnet.Subnet, m *sm.Manager, question []byte) ([]byte, error) {
			if string(question) == "no" {
				return nil, errors.New("refused by the fabric")
			}
			return bytes.Repeat(question, 100_000), nil
		}
	})
	answer, err := attach.Do(t.Context(), "test", []byte("abc"))
	if err != nil || !bytes.Equal(answer, bytes.Repeat([]byte("abc"), 100_000)) {
		t.Errorf("%d bytes, %v", len(answer), err)
	}
	if err := attach.Down(t.Context(), "test"); err == nil || !strings.Contains(err.Error(), "with its process only") {
		t.Errorf("a fabric without End: %v", err)
	}
	if _, err := attach.Do(t.Context(), "test", []byte("no")); err == nil || !strings.Contains(err.Error(), "refused by the fabric") {
		t.Errorf("%v", err)
	}
}

// An idle fabric has no wake-ups but those of its manager, and nothing is left of one that has
// ended.
func TestNothingIsLeft(t *testing.T) {
	before := runtime.NumGoroutine()
	f := fabrictest.Start(t, "star:4")
	for i := range 4 {
		f.Attach(i)
	}
	f.Restart()
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	fabrictest.WaitFor(t, "goroutines to end", func() bool { return runtime.NumGoroutine() <= before+4 }) // of the ports
}

func TestOneFabricOfAName(t *testing.T) {
	f := fabrictest.Start(t, "star:2")
	shape, _ := topology.Generate("star:2")
	if _, err := live.Start(live.Config{Name: f.Name, Fabric: shape}); err == nil {
		t.Error("two fabrics of one name")
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if _, err := attach.Open(ctx, f.Adapters[0]); err == nil {
		t.Error("attached to a fabric that has ended")
	}
}

// An adapter closes the link of its port before the port is closed.
func TestPortClosesAfterItsLink(t *testing.T) {
	f := fabrictest.Start(t, "star:2")
	p, err := attach.Open(t.Context(), f.Adapters[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(p.Link().Close(), p.Close()); err != nil {
		t.Error(err)
	}
}
