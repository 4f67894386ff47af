package rdmacm_test

import (
	"testing"

	"softrdma/internal/cmid"
	"softrdma/rdmacm"
)

// The package defines its own types, so that go doc shows them, and converts them by number:
// each number must be the manager's.
func TestNumbersAreTheManagers(t *testing.T) {
	for name, c := range map[string][2]int{
		"PortSpaceTCP": {int(rdmacm.PortSpaceTCP), int(cmid.PortSpaceTCP)}, "PortSpaceUDP": {int(rdmacm.PortSpaceUDP), int(cmid.PortSpaceUDP)},
		"PortSpaceIB": {int(rdmacm.PortSpaceIB), int(cmid.PortSpaceIB)},

		"AddrResolved": {int(rdmacm.EventAddrResolved), int(cmid.EventAddrResolved)}, "AddrError": {int(rdmacm.EventAddrError), int(cmid.EventAddrError)},
		"RouteResolved": {int(rdmacm.EventRouteResolved), int(cmid.EventRouteResolved)}, "RouteError": {int(rdmacm.EventRouteError), int(cmid.EventRouteError)},
		"ConnectRequest": {int(rdmacm.EventConnectRequest), int(cmid.EventConnectRequest)}, "ConnectResponse": {int(rdmacm.EventConnectResponse), int(cmid.EventConnectResponse)},
		"ConnectError": {int(rdmacm.EventConnectError), int(cmid.EventConnectError)}, "Unreachable": {int(rdmacm.EventUnreachable), int(cmid.EventUnreachable)},
		"Rejected": {int(rdmacm.EventRejected), int(cmid.EventRejected)}, "Established": {int(rdmacm.EventEstablished), int(cmid.EventEstablished)},
		"Disconnected": {int(rdmacm.EventDisconnected), int(cmid.EventDisconnected)}, "DeviceRemoval": {int(rdmacm.EventDeviceRemoval), int(cmid.EventDeviceRemoval)},
		"MulticastJoin": {int(rdmacm.EventMulticastJoin), int(cmid.EventMulticastJoin)}, "MulticastError": {int(rdmacm.EventMulticastError), int(cmid.EventMulticastError)},
		"AddrChange": {int(rdmacm.EventAddrChange), int(cmid.EventAddrChange)}, "TimewaitExit": {int(rdmacm.EventTimewaitExit), int(cmid.EventTimewaitExit)},
	} {
		if c[0] != c[1] {
			t.Errorf("%s is %d, the manager's %d", name, c[0], c[1])
		}
	}
	if got := rdmacm.EventRejected.String(); got != "RDMA_CM_EVENT_REJECTED" {
		t.Errorf("EventRejected is named %q", got)
	}
	if got := rdmacm.PortSpaceUDP.String(); got != "UDP" {
		t.Errorf("PortSpaceUDP is named %q", got)
	}
}
