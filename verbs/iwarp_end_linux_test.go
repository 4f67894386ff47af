package verbs_test

import (
	"bytes"
	"io"
	"net"
	"net/netip"
	"testing"
	"time"

	"softrdma/internal/adapter"
	"softrdma/internal/iwarp"
	"softrdma/internal/registry"
	wire "softrdma/internal/wire/iwarp"
	"softrdma/verbs"
)

// A peer that stops reading fills its own socket, and delays no other peer.
func TestIWARPDeafPeerStallsNoOtherPeer(t *testing.T) {
	before := use()
	deaf, err := net.Listen("tcp", "127.13.1.9:0")
	if err != nil {
		t.Fatal(err)
	}
	heard := make(chan net.Conn, 1)
	go func() { // an MPA responder that answers and then stops reading
		c, err := deaf.Accept()
		if err != nil {
			t.Error(err)
			return
		}
		var b [wire.FrameLen]byte
		_, _ = io.ReadFull(c, b[:])
		f := wire.Frame{Reply: true, Revision: 1}
		f.Put(b[:])
		_, _ = c.Write(b[:])
		heard <- c
	}()
	a, b := newStreamPair(t, "127.13.1.10", "127.13.1.11")
	stuck := newStreamEnd(t, a.dev, iwarpRights)
	stuck.stream, err = registry.Adapter(a.dev).Dial(&adapter.DialConfig{
		Dst: netip.MustParseAddrPort(deaf.Addr().String()), QPN: stuck.qp.Number(), Params: iwarp.Params{Revision: 1},
	}, stuck.handle)
	if err != nil {
		t.Fatal(err)
	}
	stuck.await(iwarp.Established)
	peer := <-heard
	for range 100 { // 100 MB
		stuck.send(verbs.SendWR{Op: verbs.OpWrite, SGL: []verbs.SGE{stuck.mr.SGE(0, 1<<20)}, RemoteAddr: 1, RKey: 1})
	}
	for range 200 {
		b.recv(0, 1000)
		a.send(verbs.SendWR{Op: verbs.OpSend, SGL: []verbs.SGE{a.mr.SGE(0, 1000)}})
		a.completion(verbs.Success)
		b.completion(verbs.Success)
	}
	var w [128]verbs.WC
	if n, err := stuck.cq.Poll(w[:]); err != nil || n == 100 {
		t.Errorf("%d requests completed, %v: the peer did not stop", n, err)
	}
	_, _ = peer.Close(), deaf.Close() // unread bytes cause a reset
	if v := stuck.await(iwarp.Closed); v.Detail.Reason.String() != "STREAM_LOST" {
		t.Errorf("the end was reported as %v", v.Detail)
	}
	_, _ = a.dev.Close(), b.dev.Close()
	noLeak(t, before)
}

// Completed requests arrive, even if the sender ends immediately afterwards.
func TestIWARPCompletedArrivesBeforeTheEnd(t *testing.T) {
	before := use()
	devA, devB := openIWARP(t, "127.13.1.12"), openIWARP(t, "127.13.1.13")
	for i := range 20 {
		a, b := newStreamEnd(t, devA, iwarpRights), newStreamEnd(t, devB, iwarpRights)
		connectEnds(t, a, b)
		pattern(a.mem, byte(i))
		b.recv(0, 1<<20)
		a.send(verbs.SendWR{Op: verbs.OpSend, SGL: []verbs.SGE{a.mr.SGE(0, 1<<20)}})
		a.completion(verbs.Success)
		switch i % 3 {
		case 0:
			if err := a.stream.Disconnect(); err != nil {
				t.Fatal(err)
			}
		case 1:
			a.stream.Release()
		}
		if err := a.qp.Destroy(); err != nil {
			t.Fatal(err)
		}
		b.completion(verbs.Success)
		if !bytes.Equal(a.mem, b.mem) {
			t.Fatal("wrong bytes")
		}
		if v := b.await(iwarp.Closed); v.Detail.Reason.String() != "STREAM_CLOSED" {
			t.Errorf("the end was reported as %v", v.Detail)
		}
	}
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		x, lx := registry.Adapter(devA).StreamCount()
		y, ly := registry.Adapter(devB).StreamCount()
		if x+y+lx+ly == 0 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("%d and %d streams, %d and %d listeners are left", x, y, lx, ly)
		}
	}
	_, _ = devA.Close(), devB.Close()
	noLeak(t, before)
}

func TestIWARPRefusedSetUpsAreReported(t *testing.T) {
	dev := openIWARP(t, "127.13.1.14")
	e := newStreamEnd(t, dev, iwarpRights)
	a := registry.Adapter(dev)
	free, err := a.ListenStream(0, 1, e.handle)
	if err != nil {
		t.Fatal(err)
	}
	closedPort := free.Addr()
	free.Close()
	if _, err := a.Dial(&adapter.DialConfig{Dst: closedPort, QPN: e.qp.Number(), Params: testParams}, e.handle); err != nil {
		t.Fatal(err)
	}
	if v := e.await(iwarp.Refused); v.Detail.Reason.String() != "CONNECT_REFUSED" {
		t.Errorf("no listener: %v", v.Detail)
	}

	silent, err := net.Listen("tcp", "127.13.1.15:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	p := testParams
	p.Timeout = time.Millisecond
	if _, err := a.Dial(&adapter.DialConfig{Dst: netip.MustParseAddrPort(silent.Addr().String()), QPN: e.qp.Number(), Params: p}, e.handle); err != nil {
		t.Fatal(err)
	}
	// With TLS, or if the time has passed before the lane looks, there is no connection yet.
	if r := e.await(iwarp.Refused).Detail.Reason.String(); r != "CONNECT_FAILED" && (r != "MPA_TIMEOUT" || testTLS != nil) {
		t.Errorf("silent peer: %v", r)
	}

	// The queue pair is free again, and its next peer rejects.
	l, err := a.ListenStream(0, 1, e.handle)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Dial(&adapter.DialConfig{Dst: l.Addr(), QPN: e.qp.Number(), Params: testParams}, e.handle); err != nil {
		t.Fatal(err)
	}
	if err := e.await(iwarp.Requested).On.Reject([]byte("no")); err != nil {
		t.Fatal(err)
	}
	if v := e.await(iwarp.Rejected); string(v.Private) != "no" {
		t.Errorf("rejection with %q", v.Private)
	}
	l.Close()
	if s, n := a.StreamCount(); s+n != 0 {
		t.Errorf("%d streams and %d listeners are left", s, n)
	}
}

// Programs send before their peer has posted a receive, and rely on it to wait. Later messages
// wait as well.
func TestIWARPSendWaitsForItsReceive(t *testing.T) {
	a, b := newStreamPair(t, "127.13.1.32", "127.13.1.33")
	const n, count = 40_000, 20
	pattern(a.mem[:n], 5)
	for i := range count {
		a.send(verbs.SendWR{Op: verbs.OpSend, SGL: []verbs.SGE{a.mr.SGE(i, n)}})
	}
	a.send(verbs.SendWR{Op: verbs.OpWrite, SGL: []verbs.SGE{a.mr.SGE(0, n)}, RemoteAddr: b.mr.Addr() + 1<<19, RKey: b.mr.RKey()})
	for i := range count {
		b.recv(0, n)
		if w := b.completion(verbs.Success); w.ByteLen != n || !bytes.Equal(b.mem[:n], a.mem[i:i+n]) {
			t.Fatalf("message %d: %+v, or other bytes", i, w)
		}
	}
	a.send(verbs.SendWR{Op: verbs.OpRead, SGL: []verbs.SGE{a.mr.SGE(1<<18, n)}, RemoteAddr: b.mr.Addr() + 1<<19, RKey: b.mr.RKey()})
	for range count + 2 {
		a.completion(verbs.Success)
	}
	if !bytes.Equal(a.mem[:n], a.mem[1<<18:1<<18+n]) {
		t.Error("other bytes came back")
	}
}
