package rdmanet

import (
	"testing"

	"softrdma/verbs"
)

// TestIWARPIsTheSame runs the tests over the connection manager once more, on
// iWARP devices: programs change nothing but the device.
func TestIWARPIsTheSame(t *testing.T) {
	testPrefix = "iwarp:"
	defer func() { testPrefix = "" }()
	sameTests(t)
}

// TestTLSIsTheSame runs them on devices with TLS, whose connections are read and
// written by goroutines as on systems other than Linux.
func TestTLSIsTheSame(t *testing.T) {
	secret, err := verbs.SharedSecret([]byte("these bytes are not random"))
	if err != nil {
		t.Fatal(err)
	}
	testPrefix, testTLS = "iwarp:", secret
	defer func() { testPrefix, testTLS = "", nil }()
	sameTests(t)
}

func sameTests(t *testing.T) {
	for _, c := range []struct {
		name string
		test func(*testing.T)
	}{
		{"ConnSemanticsOfNettest", TestConnSemanticsOfNettestOverTheConnectionManager},
		{"DialAndAcceptKnowTheirAddresses", TestDialAndAcceptKnowTheirAddresses},
		{"CloseLosesNothing", TestCloseLosesNothingOverTheConnectionManager},
		{"StreamCutIsNoEnd", TestStreamCutIsNoEnd},
		{"StreamCutWhileHalfClosed", TestStreamCutWhileHalfClosed},
		{"StreamAbandonedIsNoEnd", TestStreamAbandonedIsNoEnd},
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
