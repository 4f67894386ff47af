package verbs_test

import (
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"softrdma/internal/adapter"
	"softrdma/internal/iwarp"
	"softrdma/internal/reason"
	"softrdma/internal/registry"
	"softrdma/verbs"
)

// watchfulStreams makes two connected ends, the first of which has a PeerTimeout. Their stream
// goes through a relay until stop is called. From then on only the systems of both ends
// answer, as with a stopped process.
func watchfulStreams(t *testing.T, addrA, addrB string, timeout, probe time.Duration) (a, b *streamEnd, stop func()) {
	t.Helper()
	a = newStreamEnd(t, openIWARP(t, addrA), iwarpRights)
	b = newStreamEnd(t, openIWARP(t, addrB), iwarpRights)
	q, err := a.pd.CreateQP(verbs.QPConfig{Type: verbs.RC, SendCQ: a.cq, PeerTimeout: timeout, PeerProbe: probe})
	if err != nil {
		t.Fatal(err)
	}
	if err := q.ToInit(verbs.InitAttr{}); err != nil {
		t.Fatal(err)
	}
	a.qp = q
	l, err := registry.Adapter(b.dev).ListenStream(0, 4, b.handle)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	relay, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { relay.Close() })
	stopped := make(chan struct{})
	go func() {
		in, err := relay.Accept()
		if err != nil {
			return
		}
		defer in.Close()
		out, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			return
		}
		defer out.Close()
		go relayUntil(stopped, out, in)
		relayUntil(stopped, in, out)
		<-t.Context().Done()
	}()
	dst := relay.Addr().(*net.TCPAddr).AddrPort()
	a.stream, err = registry.Adapter(a.dev).Dial(&adapter.DialConfig{Dst: dst, QPN: a.qp.Number(), Params: testParams}, a.handle)
	if err != nil {
		t.Fatal(err)
	}
	b.stream = b.await(iwarp.Requested).On
	if err := b.stream.Accept(b.qp.Number(), &testParams); err != nil {
		t.Fatal(err)
	}
	a.await(iwarp.Established)
	b.await(iwarp.Established)
	return a, b, func() { close(stopped) }
}

// relayUntil copies until stopped is closed.
func relayUntil(stopped <-chan struct{}, to io.Writer, from net.Conn) {
	b := make([]byte, 64<<10)
	for {
		n, err := from.Read(b)
		select {
		case <-stopped:
			return
		default:
		}
		if _, e := to.Write(b[:n]); e != nil || err != nil {
			return
		}
	}
}

// TestIWARPPeerTimeoutEndsIdleConnectionToSilentPeer: TCP works, but the peer's device does
// not answer. The end without a PeerTimeout notices nothing.
func TestIWARPPeerTimeoutEndsIdleConnectionToSilentPeer(t *testing.T) {
	a, b, stop := watchfulStreams(t, "127.13.61.1", "127.13.61.2", 400*time.Millisecond, 0)
	a.recv(0, 64)
	stop()
	if w := a.completion(verbs.WRFlushErr); !strings.Contains(w.Err().Error(), "PEER_SILENT") {
		t.Errorf("the receive completed with %v", w.Err())
	}
	if e := a.await(iwarp.Closed); e.Detail.Reason != reason.PeerSilent || e.Detail.Expected != 400 {
		t.Errorf("the connection ended for %v", e.Detail)
	}
	if a.qp.State() != verbs.Err || b.qp.State() != verbs.RTS {
		t.Errorf("states %v and %v", a.qp.State(), b.qp.State())
	}
}

// TestIWARPPeerTimeoutLetsIdleConnectionsStand: the peer's device answers by itself.
func TestIWARPPeerTimeoutLetsIdleConnectionsStand(t *testing.T) {
	a, b, _ := watchfulStreams(t, "127.13.61.3", "127.13.61.4", time.Minute, 30*time.Millisecond)
	b.recv(0, 64)
	for end := time.Now().Add(10 * time.Second); counted(a.dev, "PEER_PROBE") < 5 && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
	}
	if n := counted(a.dev, "PEER_PROBE"); n < 5 || a.qp.State() != verbs.RTS || b.qp.State() != verbs.RTS {
		t.Fatalf("after %d probes: states %v and %v", n, a.qp.State(), b.qp.State())
	}
	a.send(verbs.SendWR{Op: verbs.OpSend, SGL: []verbs.SGE{a.mr.SGE(0, 8)}})
	a.completion(verbs.Success)
	b.completion(verbs.Success)
}
