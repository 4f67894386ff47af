package rdmanet

import (
	"testing"

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
