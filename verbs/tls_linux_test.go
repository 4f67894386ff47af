package verbs_test

import (
	"bytes"
	"crypto/tls"
	"errors"
	"strings"
	"testing"
	"time"

	"softrdma/internal/adapter"
	"softrdma/internal/iwarp"
	"softrdma/internal/registry"
	"softrdma/verbs"
)

func secret(t *testing.T, s string) *tls.Config {
	t.Helper()
	c, err := verbs.SharedSecret([]byte(s + ": not random, but long enough"))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestTLSIsTheSame runs tests of iWARP again with TLS.
func TestTLSIsTheSame(t *testing.T) {
	testTLS = secret(t, "one")
	defer func() { testTLS = nil }()
	for _, c := range []struct {
		name string
		test func(*testing.T)
	}{
		{"CarriesEveryOperation", TestIWARPCarriesEveryOperation},
		{"SendInvalidatesWindow", TestIWARPSendInvalidatesWindow},
		{"RefusesWhatThePeerMayNot", TestIWARPRefusesForbiddenAccess},
		{"CompletedArrivesBeforeTheEnd", TestIWARPCompletedArrivesBeforeTheEnd},
		{"RefusedSetUpsAreTold", TestIWARPRefusedSetUpsAreReported},
	} {
		t.Run(c.name, c.test)
	}
}

func TestTLSCarriesMuch(t *testing.T) {
	before := use()
	testTLS = secret(t, "one")
	defer func() { testTLS = nil }()
	a, b := newStreamPair(t, "127.13.4.1", "127.13.4.2")
	const n = 1 << 19
	for i := range 64 {
		pattern(a.mem[:n], byte(i))
		a.send(verbs.SendWR{Op: verbs.OpWrite, SGL: []verbs.SGE{a.mr.SGE(0, n)}, RemoteAddr: b.mr.Addr() + 3, RKey: b.mr.RKey()})
		a.completion(verbs.Success)
		clear(a.mem[n:])
		a.send(verbs.SendWR{Op: verbs.OpRead, SGL: []verbs.SGE{a.mr.SGE(n, n)}, RemoteAddr: b.mr.Addr() + 3, RKey: b.mr.RKey()})
		a.completion(verbs.Success)
		if !bytes.Equal(a.mem[:n], a.mem[n:]) {
			t.Fatalf("round %d: wrong bytes", i)
		}
	}
	_, _ = a.dev.Close(), b.dev.Close()
	noLeak(t, before)
}

// A peer without TLS, or with another secret, is refused, and both ends name the reason. The
// listening program does not see it.
func TestTLSPeersThatDoNotFit(t *testing.T) {
	for _, c := range []struct {
		name         string
		dial, listen *tls.Config
		dialled      string
		says         string
		counted      string
	}{
		{"plain to TLS", nil, secret(t, "one"), "MPA_TLS", "", "TLS_PLAIN"},
		{"TLS to plain", secret(t, "one"), nil, "TLS_HANDSHAKE", "0 received", "MPA_TLS"},
		{"another secret", secret(t, "one"), secret(t, "another"), "TLS_TRUST", "another key than the shared secret's", "TLS_HANDSHAKE"},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := use()
			dev, peer := openTLS(t, "127.13.4.3", c.dial), openTLS(t, "127.13.4.4", c.listen)
			e := newStreamEnd(t, dev, iwarpRights)
			l, err := registry.Adapter(peer).ListenStream(0, 4, func(v *adapter.StreamEvent) {
				if v.Kind == iwarp.Requested {
					t.Error("the listener was asked")
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := registry.Adapter(dev).Dial(&adapter.DialConfig{Dst: l.Addr(), QPN: e.qp.Number(), Params: testParams}, e.handle); err != nil {
				t.Fatal(err)
			}
			v := e.await(iwarp.Refused)
			if v.Detail.Reason.String() != c.dialled || c.says != "" && (v.Err == nil || !strings.Contains(v.Err.Error(), c.says)) {
				t.Errorf("expected %s, found %v (%v)", c.dialled, v.Detail, v.Err)
			}
			for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
				if counted(peer, c.counted) == 1 {
					break
				}
				if time.Now().After(end) {
					t.Fatalf("the listener did not count %s", c.counted)
				}
			}
			_, _ = dev.Close(), peer.Close()
			noLeak(t, before)
		})
	}
}

func counted(d *verbs.Device, name string) uint64 {
	for k, n := range d.Counters() {
		if k == name {
			return n
		}
	}
	return 0
}

func TestTLSRefusals(t *testing.T) {
	for _, cfg := range []verbs.Config{{TLS: secret(t, "one"), Markers: true}, {NoCRC: true}} {
		if d, err := verbs.Open("127.13.4.5", cfg); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("RoCE v2 with %+v: %v", cfg, err)
			_ = d.Close()
		}
	}
	if _, err := verbs.SharedSecret([]byte("too short")); err == nil || !strings.Contains(err.Error(), "16") {
		t.Errorf("a short secret: %v", err)
	}
}
