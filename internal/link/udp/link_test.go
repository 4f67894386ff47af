package udp

import (
	"errors"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"softrdma/internal/link"
)

// loopbacks returns the loopback addresses that work here.
func loopbacks(t *testing.T) []string {
	hosts := []string{"127.0.0.1"}
	l, err := Open(netip.MustParseAddrPort("[::1]:0"), Config{})
	if err != nil {
		t.Logf("IPv6 left out: %v", err)
		return hosts
	}
	_ = l.Close()
	return append(hosts, "::1")
}

func pair(t testing.TB, host string, cfg Config) (a, b *Link) {
	t.Helper()
	open := func() *Link {
		l, err := Open(netip.AddrPortFrom(netip.MustParseAddr(host), 0), cfg)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		return l
	}
	return open(), open()
}

func openFlow(t testing.TB, l *Link, dst netip.AddrPort, label uint32) *link.DatagramFlow {
	t.Helper()
	f, err := l.OpenFlow(dst, label)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func pattern(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7 ^ i>>8)
	}
	return b
}

func send(t testing.TB, l *Link, tx *link.Tx) {
	t.Helper()
	if err := l.Send(tx); err != nil {
		t.Fatal(err)
	}
}

func receive(t testing.TB, l *Link, rx *link.Rx) {
	t.Helper()
	for range 100 {
		ok, err := l.Receive(rx)
		if err != nil {
			t.Fatal(err)
		}
		if ok {
			return
		}
		if err := l.Wait(10 * time.Millisecond); err != nil {
			t.Fatal(err)
		}
	}
	t.Fatal("nothing received within a second")
}

// receiveAll receives n bytes in any number of batches.
func receiveAll(t testing.TB, l *Link, n int) (got []byte) {
	t.Helper()
	var rx link.Rx
	for len(got) < n {
		receive(t, l, &rx)
		got = append(got, rx.Data...)
	}
	return got
}

func TestSendPacketArrives(t *testing.T) {
	for _, host := range loopbacks(t) {
		a, b := pair(t, host, Config{})
		f := openFlow(t, a, b.Local(), 12345)
		data := pattern(4200)
		send(t, a, &link.Tx{Flow: &f.Flow, Pieces: [][]byte{data[:20], data[20:]}, Bytes: len(data), Size: 4200})
		var rx link.Rx
		receive(t, b, &rx)
		if string(rx.Data) != string(data) || rx.Size != len(data) || rx.Src != f.Src || rx.Dst != b.Local() {
			t.Fatalf("%s: received %d bytes in packets of %d from %v to %v, want %d from %v to %v",
				host, len(rx.Data), rx.Size, rx.Src, rx.Dst, len(data), f.Src, b.Local())
		}
		if ok, err := b.Receive(&rx); ok || err != nil {
			t.Fatalf("%s: second receive: %v %v, want nothing", host, ok, err)
		}
	}
}

func TestOpenFlowSourcePortIsFoldedLabel(t *testing.T) {
	a, b := pair(t, "127.0.0.1", Config{})
	const label = 0xabcde
	f := openFlow(t, a, b.Local(), label)
	// Linux's rdma_flow_label_to_udp_sport gives 0xfcf4 for this label.
	if f.Src.Port() != 0xfcf4 {
		t.Skipf("port 0xfcf4 is taken, found %#x", f.Src.Port())
	}
	if g := openFlow(t, a, b.Local(), label); g != f {
		t.Fatalf("same label again: port %d, want %d", g.Src.Port(), f.Src.Port())
	}
	if g := openFlow(t, a, b.Local(), label+1); g.Src.Port() == f.Src.Port() {
		t.Fatalf("another label: the same port %d", g.Src.Port())
	}
}

func TestOpenFlowPortTakenUsesAnother(t *testing.T) {
	a, b := pair(t, "127.0.0.1", Config{})
	f := openFlow(t, a, b.Local(), 7)
	g := openFlow(t, b, a.Local(), 7) // same address and label
	if f.Src.Port() == g.Src.Port() || f.Src.Port() < firstPort || g.Src.Port() < firstPort {
		t.Fatalf("two flows of equal label have ports %d and %d", f.Src.Port(), g.Src.Port())
	}
}

func TestOpenFlowBeyondBoundShares(t *testing.T) {
	a, b := pair(t, "127.0.0.1", Config{MaxFlowSockets: 4})
	c, _ := pair(t, "127.0.0.1", Config{})
	ports := map[uint16]bool{}
	var flows []*link.DatagramFlow
	for i := range 100 {
		f := openFlow(t, a, b.Local(), uint32(i))
		if again := openFlow(t, a, b.Local(), uint32(i)); again != f {
			t.Fatalf("label %d: ports %d and %d", i, f.Src.Port(), again.Src.Port())
		}
		ports[f.Src.Port()] = true
		flows = append(flows, f, f)
	}
	if len(ports) != 4 {
		t.Fatalf("%d ports, want 4", len(ports))
	}
	other := openFlow(t, a, c.Local(), 1)
	if other.Src != a.Local() {
		t.Fatalf("flow to a further peer leaves from %v, want the receiving socket's %v", other.Src, a.Local())
	}
	send(t, a, &link.Tx{Flow: &other.Flow, Pieces: [][]byte{pattern(64)}, Bytes: 64, Size: 64})
	var rx link.Rx
	receive(t, c, &rx)
	if rx.Src != a.Local() {
		t.Fatalf("received from %v, want %v", rx.Src, a.Local())
	}
	for _, f := range flows {
		a.CloseFlow(&f.Flow)
	}
	if f := openFlow(t, a, c.Local(), 1); f != other {
		t.Fatalf("the same label again: from %v, want the open flow's %v", f.Src, other.Src)
	}
	a.CloseFlow(&other.Flow)
	a.CloseFlow(&other.Flow)
	if f := openFlow(t, a, c.Local(), 2); f.Src == a.Local() {
		t.Fatal("a socket is free, but the flow leaves from the receiving one")
	}
}

func TestSendOnClosedFlowRefused(t *testing.T) {
	a, b := pair(t, "127.0.0.1", Config{})
	f := openFlow(t, a, b.Local(), 1)
	openFlow(t, a, b.Local(), 1)
	tx := &link.Tx{Flow: &f.Flow, Pieces: [][]byte{{1}}, Bytes: 1, Size: 1}
	a.CloseFlow(&f.Flow)
	send(t, a, tx) // one user is left
	a.CloseFlow(&f.Flow)
	if err := a.Send(tx); !errors.Is(err, ErrFlow) {
		t.Fatalf("send on a closed flow: %v, want ErrFlow", err)
	}
	g := openFlow(t, a, b.Local(), 2) // takes the handle
	if err := a.Send(tx); g.Handle == f.Handle && !errors.Is(err, ErrFlow) {
		t.Fatalf("send on a closed flow whose handle is another's: %v, want ErrFlow", err)
	}
	a.CloseFlow(&f.Flow)
	tx.Flow = &g.Flow
	send(t, a, tx)
	tx.Flow = nil
	if err := a.Send(tx); !errors.Is(err, ErrFlow) {
		t.Fatalf("send without a flow: %v, want ErrFlow", err)
	}
}

func TestOpenFlowOtherFamilyRefused(t *testing.T) {
	a, _ := pair(t, "127.0.0.1", Config{})
	if _, err := a.OpenFlow(netip.MustParseAddrPort("[2001:db8::1]:4791"), 0); !errors.Is(err, ErrFamily) {
		t.Fatalf("flow to IPv6 on an IPv4 link: %v, want ErrFamily", err)
	}
	if _, err := a.OpenFlow(netip.MustParseAddrPort("127.0.0.1:0"), 0); err == nil {
		t.Fatal("flow to port 0 opened")
	}
	f, err := a.OpenFlow(netip.MustParseAddrPort("[::ffff:127.0.0.1]:4791"), 0)
	if err != nil || !f.Dst.Addr().Is4() {
		t.Fatalf("flow to an IPv4-mapped address: %v, want it unmapped", err)
	}
}

func TestOpenBadAddressNamesReason(t *testing.T) {
	for addr, want := range map[string]string{
		"0.0.0.0:4791":      "unspecified address",
		"[::]:4791":         "unspecified address",
		"239.1.1.1:4791":    "multicast group",
		"[fe80::1]:4791":    "expected an interface",
		"203.0.113.77:4791": "expected an address of this host",
	} {
		l, err := Open(netip.MustParseAddrPort(addr), Config{})
		if err == nil {
			_ = l.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("open %s: %v, want %q", addr, err, want)
		}
	}
	if _, err := Open(netip.AddrPort{}, Config{}); err == nil {
		t.Error("opened no address")
	}
}

func TestOpenMappedAddressIsUnmapped(t *testing.T) {
	l, err := Open(netip.MustParseAddrPort("[::ffff:127.0.0.1]:0"), Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if !l.Local().Addr().Is4() || l.Local().Port() == 0 {
		t.Fatalf("local address %v, want 127.0.0.1 with a port", l.Local())
	}
	if l.Capabilities().ReceiveBuffer <= 0 {
		t.Fatalf("receive buffer of %d bytes", l.Capabilities().ReceiveBuffer)
	}
}

func TestCloseEndsWaitAndCalls(t *testing.T) {
	a, b := pair(t, "127.0.0.1", Config{})
	f := openFlow(t, a, b.Local(), 1)
	waited := make(chan error)
	go func() { waited <- a.Wait(-1) }()
	time.Sleep(5 * time.Millisecond)
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-waited; !errors.Is(err, link.ErrClosed) {
		t.Fatalf("wait on a link being closed: %v, want ErrClosed", err)
	}
	var rx link.Rx
	if ok, err := a.Receive(&rx); ok || !errors.Is(err, link.ErrClosed) {
		t.Fatalf("receive on a closed link: %v %v, want ErrClosed", ok, err)
	}
	if err := a.Send(&link.Tx{Flow: &f.Flow, Pieces: [][]byte{{1}}, Bytes: 1, Size: 1}); !errors.Is(err, link.ErrClosed) {
		t.Fatalf("send on a closed link: %v, want ErrClosed", err)
	}
	if _, err := a.OpenFlow(b.Local(), 3); !errors.Is(err, link.ErrClosed) {
		t.Fatalf("flow on a closed link: %v, want ErrClosed", err)
	}
	if err := a.Join(netip.MustParseAddr("239.1.2.3")); !errors.Is(err, link.ErrClosed) {
		t.Fatalf("join on a closed link: %v, want ErrClosed", err)
	}
	if err := a.Wait(-1); !errors.Is(err, link.ErrClosed) {
		t.Fatalf("wait on a closed link: %v, want ErrClosed", err)
	}
	a.Wake()
	a.CloseFlow(&f.Flow)
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	c, err := Open(a.Local(), Config{})
	if err != nil {
		t.Fatalf("the address is not free at once: %v", err)
	}
	_ = c.Close()
}

// Every Wake must end a Wait that begins before or after it. A lost one would hang the test.
func TestWakeNeverLost(t *testing.T) {
	a, _ := pair(t, "127.0.0.1", Config{})
	turns := make(chan struct{})
	go func() {
		defer close(turns)
		for range 3000 {
			if err := a.Wait(-1); errors.Is(err, link.ErrClosed) {
				return // the test has failed
			} else if err != nil {
				t.Error(err)
			}
			turns <- struct{}{}
		}
	}()
	for {
		a.Wake()
		select {
		case _, ok := <-turns:
			if !ok {
				return
			}
		case <-time.After(20 * time.Second):
			t.Fatal("a Wake was lost")
		}
	}
}

func TestCloseDuringEveryCall(t *testing.T) {
	for range 30 {
		a, b := pair(t, "127.0.0.1", Config{})
		f := openFlow(t, a, b.Local(), 1)
		var wg sync.WaitGroup
		until := func(call func() error) {
			wg.Add(1)
			go func() {
				defer wg.Done()
				for {
					if err := call(); err != nil {
						if !errors.Is(err, link.ErrClosed) {
							t.Error(err)
						}
						return
					}
				}
			}()
		}
		back := openFlow(t, b, a.Local(), 1)
		var rx link.Rx
		until(func() error { // the lane
			_, err := a.Receive(&rx)
			if err == nil {
				err = a.Send(&link.Tx{Flow: &f.Flow, Pieces: [][]byte{pattern(64)}, Bytes: 64, Size: 64})
			}
			return err
		})
		until(func() error { return a.Wait(time.Millisecond) })
		until(func() error {
			a.Wake()
			if a.life.Closed() {
				return link.ErrClosed
			}
			err := b.Send(&link.Tx{Flow: &back.Flow, Pieces: [][]byte{pattern(64)}, Bytes: 64, Size: 64})
			if a.life.Closed() {
				return link.ErrClosed // b may have been told that a is gone
			}
			return err
		})
		time.Sleep(2 * time.Millisecond)
		for range 2 {
			wg.Add(1)
			go func() { defer wg.Done(); _ = a.Close() }()
		}
		wg.Wait()
	}
}

// Reply opens no socket, and sends from the port that peers send to. Each Reply replaces the
// one before.
func TestReplyLeavesFromTheReceivingPort(t *testing.T) {
	for _, host := range loopbacks(t) {
		a, b := pair(t, host, Config{})
		sockets := a.flows.sockets
		old, err := a.Reply(b.Local())
		if err != nil {
			t.Fatal(err)
		}
		if old.Src != a.Local() || old.Dst != b.Local() || old.Identification(0) != 0 {
			t.Errorf("%s: flow from %v to %v, identification %d", host, old.Src, old.Dst, old.Identification(0))
		}
		for i := range 300 {
			to := b.Local()
			if i%2 == 1 {
				to = a.Local()
			}
			f, err := a.Reply(to)
			if err != nil {
				t.Fatal(err)
			}
			p := pattern(256)
			send(t, a, &link.Tx{Flow: &f.Flow, Pieces: [][]byte{p}, Bytes: len(p), Size: len(p), HopLimit: 64})
			at := b
			if i%2 == 1 {
				at = a
			}
			var rx link.Rx
			receive(t, at, &rx)
			if rx.Src != a.Local() || string(rx.Data) != string(p) {
				t.Fatalf("%s: %d bytes from %v", host, len(rx.Data), rx.Src)
			}
		}
		if len(a.flows.flows) != 0 || a.flows.sockets != sockets {
			t.Errorf("%s: %d flows, %d sockets", host, len(a.flows.flows), a.flows.sockets)
		}
	}
}
