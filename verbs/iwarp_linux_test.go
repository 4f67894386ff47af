package verbs_test

import (
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"softrdma/internal/adapter"
	"softrdma/internal/iwarp"
	"softrdma/internal/registry"
	"softrdma/verbs"
)

// streamEnd is one end of an iWARP connection with all its objects.
type streamEnd struct {
	t      *testing.T
	dev    *verbs.Device
	pd     *verbs.PD
	cq     *verbs.CQ
	qp     *verbs.QP
	mem    []byte
	mr     *verbs.MR
	stream *adapter.Stream
	events chan adapter.StreamEvent
}

const iwarpRights = verbs.LocalWrite | verbs.RemoteWrite | verbs.RemoteRead | verbs.RemoteAtomic | verbs.MWBind

func openIWARP(t *testing.T, addr string) *verbs.Device {
	t.Helper()
	return openTLS(t, addr, testTLS)
}

// testTLS is the TLS configuration of openIWARP, see TestTLSIsTheSame.
var testTLS *tls.Config

func openTLS(t *testing.T, addr string, security *tls.Config) *verbs.Device {
	t.Helper()
	return openAs(t, addr, verbs.Config{TLS: security})
}

func openAs(t *testing.T, addr string, cfg verbs.Config) *verbs.Device {
	t.Helper()
	cfg.Spin = -1
	dev, err := verbs.Open("iwarp:"+addr, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = dev.Close() })
	return dev
}

func TestIWARPLeavesCongestionAndLossToTCP(t *testing.T) {
	for _, cfg := range []verbs.Config{{Congestion: verbs.CongestionDCQCN}, {Recovery: verbs.GoBackN}} {
		dev, err := verbs.Open("iwarp:127.0.0.1", cfg)
		if err == nil {
			_ = dev.Close()
		}
		if !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "TCP") {
			t.Errorf("%+v: %v", cfg, err)
		}
	}
}

// Each end chooses its own markers, CRCs are left out if neither end wants them, and the bytes
// are the same in any case.
func TestIWARPMarkersAndCRCsAsAgreed(t *testing.T) {
	for name, c := range map[string]struct{ a, b verbs.Config }{
		"neither":           {},
		"markers both ways": {verbs.Config{Markers: true}, verbs.Config{Markers: true}},
		"markers one way":   {verbs.Config{Markers: true}, verbs.Config{}},
		"markers, no CRCs":  {verbs.Config{Markers: true, NoCRC: true}, verbs.Config{Markers: true, NoCRC: true}},
		"no CRCs":           {verbs.Config{NoCRC: true}, verbs.Config{NoCRC: true}},
		"no CRCs, they say": {verbs.Config{NoCRC: true}, verbs.Config{}},
	} {
		t.Run(name, func(t *testing.T) {
			a := newStreamEnd(t, openAs(t, "127.13.1.18", c.a), iwarpRights)
			b := newStreamEnd(t, openAs(t, "127.13.1.19", c.b), iwarpRights)
			for i, g := range connectEnds(t, a, b) {
				own, peers := c.a, c.b
				if i == 1 {
					own, peers = peers, own
				}
				if g.CRC == (own.NoCRC && peers.NoCRC) || g.ReceiveMarkers != own.Markers || g.SendMarkers != peers.Markers {
					t.Errorf("end %d agreed on %+v", i, g)
				}
			}
			const n = 300_001
			for _, x := range [][2]*streamEnd{{a, b}, {b, a}} {
				from, to := x[0], x[1]
				pattern(from.mem[:n], byte(len(name)))
				from.send(verbs.SendWR{Op: verbs.OpWrite, SGL: []verbs.SGE{from.mr.SGE(0, n)}, RemoteAddr: to.mr.Addr() + 1<<19, RKey: to.mr.RKey()})
				from.completion(verbs.Success)
				from.send(verbs.SendWR{Op: verbs.OpRead, SGL: []verbs.SGE{from.mr.SGE(1<<19, n)}, RemoteAddr: to.mr.Addr() + 1<<19, RKey: to.mr.RKey()})
				from.completion(verbs.Success)
				if !bytes.Equal(from.mem[:n], from.mem[1<<19:1<<19+n]) || !bytes.Equal(from.mem[:n], to.mem[1<<19:1<<19+n]) {
					t.Error("other bytes came back")
				}
			}
		})
	}
	for _, cfg := range []verbs.Config{{NoCRC: true}, {Markers: true}} {
		if _, err := verbs.Open("127.13.1.18", cfg); !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "iWARP") {
			t.Errorf("RoCE with %+v: %v", cfg, err)
		}
	}
}

func newStreamEnd(t *testing.T, dev *verbs.Device, rights verbs.Access) *streamEnd {
	t.Helper()
	e := &streamEnd{t: t, dev: dev, events: make(chan adapter.StreamEvent, 64)}
	// Not Go memory, because the runtime does not see the accesses of peers.
	m, err := verbs.AllocMemory(1<<20, verbs.AllocConfig{Device: dev})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Free() })
	e.mem = m.Bytes()
	if e.pd, err = dev.AllocPD(); err != nil {
		t.Fatal(err)
	}
	if e.mr, err = e.pd.RegisterMemory(e.mem, rights); err != nil {
		t.Fatal(err)
	}
	if e.cq, err = dev.CreateCQ(verbs.CQConfig{Depth: 512}); err != nil {
		t.Fatal(err)
	}
	if e.qp, err = e.pd.CreateQP(verbs.QPConfig{Type: verbs.RC, SendCQ: e.cq, MaxInline: 64}); err != nil {
		t.Fatal(err)
	}
	if err := e.qp.ToInit(verbs.InitAttr{Access: verbs.RemoteWrite | verbs.RemoteRead | verbs.RemoteAtomic}); err != nil {
		t.Fatal(err)
	}
	return e
}

func (e *streamEnd) handle(v *adapter.StreamEvent) {
	k := *v
	k.Private = bytes.Clone(v.Private)
	e.events <- k
}

func (e *streamEnd) await(kind iwarp.EventKind) adapter.StreamEvent {
	e.t.Helper()
	select {
	case v := <-e.events:
		if v.Kind != kind {
			e.t.Fatalf("event %d (%v), expected %d", v.Kind, v.Detail, kind)
		}
		return v
	case <-time.After(10 * time.Second):
		e.t.Fatalf("no event, expected %d", kind)
	}
	panic("not reached")
}

var testParams = iwarp.Params{IRD: 8, ORD: 8}

// connectEnds connects two ends by the adapters' methods, the first as initiator, and returns
// what each has agreed on.
func connectEnds(t *testing.T, a, b *streamEnd) [2]iwarp.Agreement {
	t.Helper()
	l, err := registry.Adapter(b.dev).ListenStream(0, 4, b.handle)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	a.stream, err = registry.Adapter(a.dev).Dial(&adapter.DialConfig{Dst: l.Addr(), QPN: a.qp.Number(), Params: testParams}, a.handle)
	if err != nil {
		t.Fatal(err)
	}
	b.stream = b.await(iwarp.Requested).On
	if err := b.stream.Accept(b.qp.Number(), &testParams); err != nil {
		t.Fatal(err)
	}
	return [2]iwarp.Agreement{a.await(iwarp.Established).Agreement, b.await(iwarp.Established).Agreement}
}

// newStreamPair makes two connected ends on separate devices.
func newStreamPair(t *testing.T, addrA, addrB string) (a, b *streamEnd) {
	t.Helper()
	a = newStreamEnd(t, openIWARP(t, addrA), iwarpRights)
	b = newStreamEnd(t, openIWARP(t, addrB), iwarpRights)
	connectEnds(t, a, b)
	return a, b
}

func (e *streamEnd) send(wr verbs.SendWR) {
	e.t.Helper()
	wr.Flags |= verbs.Signaled
	if err := e.qp.PostSend(wr); err != nil {
		e.t.Fatal(err)
	}
}

func (e *streamEnd) recv(off, n int) {
	e.t.Helper()
	if err := e.qp.PostRecv(verbs.RecvWR{WRID: uint64(off), SGL: []verbs.SGE{e.mr.SGE(off, n)}}); err != nil {
		e.t.Fatal(err)
	}
}

// completion waits for the next completion and checks its status.
func (e *streamEnd) completion(s verbs.Status) verbs.WC {
	e.t.Helper()
	var w [1]verbs.WC
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); {
		if n, err := e.cq.Poll(w[:]); err != nil {
			e.t.Fatal(err)
		} else if n == 1 {
			if w[0].Status != s {
				e.t.Fatalf("completion %+v (%v), expected status %v", w[0], w[0].Err(), s)
			}
			return w[0]
		}
	}
	e.t.Fatalf("no completion, expected status %v", s)
	panic("not reached")
}

func pattern(b []byte, seed byte) {
	for i := range b {
		b[i] = seed + byte(i*7) + byte(i>>8)
	}
}

func TestIWARPCarriesEveryOperation(t *testing.T) {
	before := use()
	a, b := newStreamPair(t, "127.13.1.1", "127.13.1.2")
	if a.dev.Query().Transport != "iWARP" || a.qp.State() != verbs.RTS || a.dev.Protocol() != verbs.IWARP {
		t.Errorf("device %+v, queue pair in %v", a.dev.Query(), a.qp.State())
	}
	if q := a.qp.Query(); q.MaxRdAtomic != 8 || q.MaxDestRdAtomic != 8 {
		t.Errorf("agreed on %+v", q)
	}

	for _, n := range []int{0, 1, 100, 4096, 65536, 300_001} { // SEND
		pattern(a.mem[:n], byte(n))
		b.recv(1<<19, n)
		a.send(verbs.SendWR{Op: verbs.OpSend, SGL: []verbs.SGE{a.mr.SGE(0, n)}})
		a.completion(verbs.Success)
		if w := b.completion(verbs.Success); int(w.ByteLen) != n || !bytes.Equal(a.mem[:n], b.mem[1<<19:1<<19+n]) {
			t.Errorf("SEND of %d bytes: %+v", n, w)
		}
	}

	for _, n := range []int{1, 5000, 1 << 19} { // WRITE, then READ back
		pattern(a.mem[:n], byte(n+1))
		a.send(verbs.SendWR{Op: verbs.OpWrite, SGL: []verbs.SGE{a.mr.SGE(0, n)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()})
		a.completion(verbs.Success)
		a.send(verbs.SendWR{Op: verbs.OpRead, SGL: []verbs.SGE{a.mr.SGE(1<<19, n)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()})
		a.completion(verbs.Success)
		if !bytes.Equal(a.mem[:n], a.mem[1<<19:1<<19+n]) {
			t.Errorf("WRITE and READ of %d bytes: wrong bytes", n)
		}
	}

	b.recv(0, 0) // WRITE with immediate data: RFC 7306
	a.send(verbs.SendWR{Op: verbs.OpWriteImm, Imm: 0x01020304, SGL: []verbs.SGE{a.mr.SGE(0, 77)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()})
	a.completion(verbs.Success)
	if w := b.completion(verbs.Success); w.Imm != 0x01020304 || w.ByteLen != 77 {
		t.Errorf("WRITE with immediate data: %+v", w)
	}

	binary.NativeEndian.PutUint64(b.mem[8:], 40) // atomics
	a.send(verbs.SendWR{Op: verbs.OpFetchAdd, Add: 2, SGL: []verbs.SGE{a.mr.SGE(0, 8)}, RemoteAddr: b.mr.Addr() + 8, RKey: b.mr.RKey()})
	a.completion(verbs.Success)
	a.send(verbs.SendWR{Op: verbs.OpCompareSwap, Compare: 42, Swap: 7, SGL: []verbs.SGE{a.mr.SGE(8, 8)}, RemoteAddr: b.mr.Addr() + 8, RKey: b.mr.RKey()})
	a.completion(verbs.Success)
	if x, y, z := binary.NativeEndian.Uint64(a.mem), binary.NativeEndian.Uint64(a.mem[8:]), binary.NativeEndian.Uint64(b.mem[8:]); x != 40 || y != 42 || z != 7 {
		t.Errorf("atomics fetched %d and %d, left %d", x, y, z)
	}

	const read = 1 + 5000 + 1<<19
	const sent = 1 + 100 + 4096 + 65536 + 300_001 + read + 77
	if s, r := a.dev.Traffic(); s != sent || r != read {
		t.Errorf("sent %d bytes and received %d, expected %d and %d", s, r, sent, read)
	}
	if s, r := b.dev.Traffic(); s != read || r != sent {
		t.Errorf("the peer sent %d bytes and received %d, expected %d and %d", s, r, read, sent)
	}
	_, _ = a.dev.Close(), b.dev.Close()
	noLeak(t, before)
}

func TestIWARPSendInvalidatesWindow(t *testing.T) {
	a, b := newStreamPair(t, "127.13.1.3", "127.13.1.4")
	mw, err := b.pd.AllocMW(verbs.MWType2)
	if err != nil {
		t.Fatal(err)
	}
	b.send(verbs.SendWR{Op: verbs.OpBindMW, Bind: &verbs.Bind{MW: mw, MR: b.mr, Addr: b.mr.Addr(), Length: 4096, Access: verbs.RemoteWrite}})
	b.completion(verbs.Success)
	a.send(verbs.SendWR{Op: verbs.OpWrite, SGL: []verbs.SGE{a.mr.SGE(0, 8)}, RemoteAddr: b.mr.Addr(), RKey: mw.RKey()})
	a.completion(verbs.Success)
	b.recv(0, 8)
	a.send(verbs.SendWR{Op: verbs.OpSendInv, InvalidateKey: mw.RKey(), SGL: []verbs.SGE{a.mr.SGE(0, 8)}})
	a.completion(verbs.Success)
	if w := b.completion(verbs.Success); w.Flags&verbs.WCWithInv == 0 || w.InvalidatedKey != mw.RKey() {
		t.Errorf("completion %+v", w)
	}
	a.send(verbs.SendWR{Op: verbs.OpRead, SGL: []verbs.SGE{a.mr.SGE(0, 8)}, RemoteAddr: b.mr.Addr(), RKey: mw.RKey()})
	a.completion(verbs.RemAccessErr)
}

// An access that the peer does not permit fails as on RoCE if the requester waits for an
// answer: with a READ.
func TestIWARPRefusesForbiddenAccess(t *testing.T) {
	for name, c := range map[string]struct {
		rights verbs.Access
		wr     func(b *streamEnd) verbs.SendWR
	}{
		"wrong key": {iwarpRights, func(b *streamEnd) verbs.SendWR {
			return verbs.SendWR{Op: verbs.OpRead, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey() ^ 0x100}
		}},
		"beyond the end": {iwarpRights, func(b *streamEnd) verbs.SendWR {
			return verbs.SendWR{Op: verbs.OpRead, RemoteAddr: b.mr.Addr() + 1<<20 - 4, RKey: b.mr.RKey()}
		}},
		"no right": {verbs.LocalWrite | verbs.RemoteWrite, func(b *streamEnd) verbs.SendWR {
			return verbs.SendWR{Op: verbs.OpRead, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()}
		}},
		"no right to atomics": {verbs.LocalWrite | verbs.RemoteRead, func(b *streamEnd) verbs.SendWR {
			return verbs.SendWR{Op: verbs.OpFetchAdd, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			a := newStreamEnd(t, openIWARP(t, "127.13.1.5"), iwarpRights)
			b := newStreamEnd(t, openIWARP(t, "127.13.1.6"), c.rights)
			connectEnds(t, a, b)
			wr := c.wr(b)
			wr.SGL = []verbs.SGE{a.mr.SGE(0, 8)}
			a.send(wr)
			a.completion(verbs.RemAccessErr)
			a.await(iwarp.Closed)
			b.await(iwarp.Closed)
			if a.qp.State() != verbs.Err || b.qp.State() != verbs.Err {
				t.Errorf("queue pairs in %v and %v", a.qp.State(), b.qp.State())
			}
		})
	}
}

func TestIWARPRefusesUnsupportedOperations(t *testing.T) {
	a, _ := newStreamPair(t, "127.13.1.7", "127.13.1.8")
	_, err := a.pd.CreateQP(verbs.QPConfig{Type: verbs.UD, SendCQ: a.cq})
	_, ah := a.pd.CreateAH(verbs.AddressVector{DGID: verbs.GIDFrom(netip.MustParseAddr("127.0.0.1"))})
	_, pcap := a.dev.Capture(&bytes.Buffer{})
	for what, err := range map[string]error{
		"UD":                  err,
		"address handle":      ah,
		"capture":             pcap,
		"multicast":           a.qp.AttachMulticast(netip.MustParseAddr("239.1.1.1")),
		"SEND with immediate": a.qp.PostSend(verbs.SendWR{Op: verbs.OpSendImm}),
		"connect by hand":     a.qp.Connect(a.qp.Endpoint(), verbs.Endpoint{}, verbs.ConnectConfig{}),
	} {
		if !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := a.qp.ToReset(); err != nil {
		t.Error(err)
	}
	if err := a.qp.ToInit(verbs.InitAttr{}); err != nil {
		t.Error(err)
	}
	if err := a.qp.ToRTR(verbs.RTRAttr{PathMTU: 1024, DestQPN: 1}); err != nil {
		t.Error(err)
	}
	if err := a.qp.ToRTS(verbs.RTSAttr{}); !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "rdmacm") {
		t.Errorf("RTR to RTS by hand: %v", err)
	}
}
