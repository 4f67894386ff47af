package rdmanet

import "testing"

// TestIWARPIsTheSame runs the tests over the connection manager once more, on
// iWARP devices: programs change nothing but the device.
func TestIWARPIsTheSame(t *testing.T) {
	testPrefix = "iwarp:"
	defer func() { testPrefix = "" }()
	for _, c := range []struct {
		name string
		test func(*testing.T)
	}{
		{"ConnSemanticsOfNettest", TestConnSemanticsOfNettestOverTheConnectionManager},
		{"DialAndAcceptKnowTheirAddresses", TestDialAndAcceptKnowTheirAddresses},
		{"CloseLosesNothing", TestCloseLosesNothingOverTheConnectionManager},
		{"PeerThatOnlyDisconnectsIsTheEnd", TestPeerThatOnlyDisconnectsIsTheEnd},
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
