package verbs_test

import (
	"net"
	"strings"
	"testing"
	"time"

	"softrdma/verbs"
)

// vanish closes an end's device. With silent, its address is then bound by a socket that never
// answers, like a stopped process or a lost host.
func (s *side) vanish(t *testing.T, silent bool) {
	t.Helper()
	at := s.dev.Addr().String()
	if err := s.dev.Close(); err != nil {
		t.Fatal(err)
	}
	if !silent || *overFabric { // an unused port of a fabric is silent
		return
	}
	c, err := net.ListenPacket("udp", at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
}

// receive posts a receive.
func (s *side) receive(t *testing.T) {
	t.Helper()
	if err := s.qp.PostRecv(verbs.RecvWR{WRID: 9, SGL: []verbs.SGE{s.mr.SGE(0, 64)}}); err != nil {
		t.Fatal(err)
	}
}

func TestPeerTimeoutEndsIdleConnectionToSilentPeer(t *testing.T) {
	e := ends{a: "127.7.61.1", b: "127.7.61.2", qp: verbs.QPConfig{Type: verbs.RC, PeerTimeout: 400 * time.Millisecond}}
	a, b := e.pair(t)
	a.receive(t)
	b.vanish(t, true)
	wc, why := a.one(t), "PEER_SILENT"
	if *overMemory { // the end of the channel gives more information
		why = refused()
	}
	if wc.Status != verbs.WRFlushErr || !strings.Contains(wc.Err().Error(), why) {
		t.Errorf("the receive completed with %v", wc.Err())
	}
	if a.qp.State() != verbs.Err {
		t.Errorf("state %v", a.qp.State())
	}
}

// TestPeerTimeoutLetsIdleConnectionsStand: the peer's device answers by itself, whatever its
// program does.
func TestPeerTimeoutLetsIdleConnectionsStand(t *testing.T) {
	e := ends{a: "127.7.61.3", b: "127.7.61.4", qp: verbs.QPConfig{Type: verbs.RC, PeerTimeout: 3 * time.Second, PeerProbe: 30 * time.Millisecond}}
	a, b := e.pair(t)
	b.receive(t)
	time.Sleep(4 * time.Second) // nothing should happen: even a busy machine answers one of many probes in time
	if a.qp.State() != verbs.RTS || b.qp.State() != verbs.RTS {
		t.Fatalf("states %v and %v", a.qp.State(), b.qp.State())
	}
	a.post(t, verbs.SendWR{Op: verbs.OpSend, Flags: verbs.Signaled, SGL: []verbs.SGE{a.mr.SGE(0, 8)}})
	a.ok(t, verbs.WCSend)
	b.ok(t, verbs.WCRecv)
}

// TestClosedPeerEndsRequestsSoon: the peer's host reports by ICMP that the port is closed.
// Otherwise the requests would be retransmitted for a minute.
func TestClosedPeerEndsRequestsSoon(t *testing.T) {
	needUDP(t)
	for _, addr := range [][2]string{{"127.7.61.5", "127.7.61.6"}, {"[::1]:4861", "[::1]:4862"}} {
		e := ends{a: addr[0], b: addr[1], qp: verbs.QPConfig{Type: verbs.RC}}
		a, b := e.pair(t)
		b.vanish(t, false)
		began := time.Now()
		a.post(t, a.write(0, 8))
		wc := a.one(t)
		if wc.Status != verbs.RetryExcErr || wc.Reason() != refused() {
			t.Errorf("%s: the WRITE completed with %v", addr, wc.Err())
		}
		if took := time.Since(began); took > 20*time.Second {
			t.Errorf("%s: it took %v", addr, took)
		}
	}
}

func TestPeerTimeoutIsRefusedOfDatagrams(t *testing.T) {
	e := ends{a: "127.7.61.7", b: "127.7.61.8", qp: verbs.QPConfig{Type: verbs.RC}}
	a, _ := e.open(t)
	if _, err := a.pd.CreateQP(verbs.QPConfig{Type: verbs.UD, SendCQ: a.cq, PeerTimeout: time.Second}); err == nil {
		t.Error("a UD queue pair has a PeerTimeout")
	}
}
