package rdmanet

import (
	"errors"
	"syscall"
	"testing"

	"softrdma/faults"
	"softrdma/verbs"
)

// TestIWARPIsTheSame repeats the tests over the connection manager on iWARP
// devices. Programs only change the device.
func TestIWARPIsTheSame(t *testing.T) {
	testPrefix = "iwarp:"
	defer func() { testPrefix = "" }()
	sameTests(t)
}

// TestTLSIsTheSame repeats them on devices with TLS. Goroutines read and write
// their connections, as on systems other than Linux.
func TestTLSIsTheSame(t *testing.T) {
	secret, err := verbs.SharedSecret([]byte("these bytes are not random"))
	if err != nil {
		t.Fatal(err)
	}
	testPrefix, testTLS = "iwarp:", secret
	defer func() { testPrefix, testTLS = "", nil }()
	sameTests(t)
}

// TestSealedIsTheSame repeats them on RoCE v2 devices that encrypt.
func TestSealedIsTheSame(t *testing.T) {
	secret, err := verbs.SharedSecret([]byte("these bytes are not random"))
	if err != nil {
		t.Fatal(err)
	}
	testTLS = secret
	defer func() { testTLS = nil }()
	sameTests(t)
}

func sameTests(t *testing.T) {
	for _, c := range []struct {
		name string
		test func(*testing.T)
	}{
		{"ConnSemanticsOfNettest", TestConnSemanticsOfNettestOverTheConnectionManager},
		{"DialAndAcceptKnowTheirAddresses", TestDialAndAcceptReturnAddresses},
		{"CloseLosesNothing", TestCloseLosesNothingOverTheConnectionManager},
		{"StreamCutIsNoEnd", TestCutStreamReturnsCutError},
		{"StreamCutWhileHalfClosed", TestStreamCutWhileHalfClosed},
		{"StreamAbandonedIsNoEnd", TestAbandonedStreamReturnsCutError},
		{"CrossingCloseLosesNothing", TestCrossingCloseLosesNothing},
		{"NetHTTPBodyCut", TestNetHTTPBodyCut},
		{"PeerOfAnotherProtocolIsRefused", TestPeerOfAnotherProtocolIsRefused},
		{"ListenerDeadlineAndClose", TestListenerDeadlineAndClose},
		{"DialAndListenLeaveNothing", TestDialAndListenLeaveNothing},
		{"NetHTTP", TestNetHTTP},
		{"NetHTTPRequestGivenUp", TestNetHTTPRequestGivenUp},
		{"NetHTTPShutdown", TestNetHTTPShutdown},
	} {
		t.Run(c.name, c.test)
	}
}

// A TCP connection that is reset with requests outstanding has not timed out.
func TestResetConnectionIsNoTimeout(t *testing.T) {
	testPrefix = "iwarp:"
	defer func() { testPrefix = "" }()
	l, d := listen(t, ListenConfig{}), dialer(t)
	c, _ := dial(t, d, l)
	ends := faults.Rules{Rules: []faults.Rule{{Action: faults.EndStream}}}
	if err := d.Device.Faults().Set(ends); err != nil {
		t.Fatal(err)
	}
	_, _ = c.Write([]byte("lost"))
	c.SetReadDeadline(soon())
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.ETIMEDOUT) {
		t.Errorf("expected ECONNRESET, found %v", err)
	}
}
