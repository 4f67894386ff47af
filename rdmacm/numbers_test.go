package rdmacm_test

import (
	"testing"

	"softrdma/internal/cma"
	"softrdma/rdmacm"
)

// The package defines its types itself, so that go doc shows them, and converts
// them without a look at the value: each number must be the manager's.
func TestNumbersAreTheManagers(t *testing.T) {
	for name, c := range map[string][2]int{
		"PortSpaceTCP": {int(rdmacm.PortSpaceTCP), int(cma.PortSpaceTCP)}, "PortSpaceUDP": {int(rdmacm.PortSpaceUDP), int(cma.PortSpaceUDP)},
		"PortSpaceIB": {int(rdmacm.PortSpaceIB), int(cma.PortSpaceIB)},

		"AddrResolved": {int(rdmacm.EventAddrResolved), int(cma.EventAddrResolved)}, "AddrError": {int(rdmacm.EventAddrError), int(cma.EventAddrError)},
		"RouteResolved": {int(rdmacm.EventRouteResolved), int(cma.EventRouteResolved)}, "RouteError": {int(rdmacm.EventRouteError), int(cma.EventRouteError)},
		"ConnectRequest": {int(rdmacm.EventConnectRequest), int(cma.EventConnectRequest)}, "ConnectResponse": {int(rdmacm.EventConnectResponse), int(cma.EventConnectResponse)},
		"ConnectError": {int(rdmacm.EventConnectError), int(cma.EventConnectError)}, "Unreachable": {int(rdmacm.EventUnreachable), int(cma.EventUnreachable)},
		"Rejected": {int(rdmacm.EventRejected), int(cma.EventRejected)}, "Established": {int(rdmacm.EventEstablished), int(cma.EventEstablished)},
		"Disconnected": {int(rdmacm.EventDisconnected), int(cma.EventDisconnected)}, "DeviceRemoval": {int(rdmacm.EventDeviceRemoval), int(cma.EventDeviceRemoval)},
		"MulticastJoin": {int(rdmacm.EventMulticastJoin), int(cma.EventMulticastJoin)}, "MulticastError": {int(rdmacm.EventMulticastError), int(cma.EventMulticastError)},
		"AddrChange": {int(rdmacm.EventAddrChange), int(cma.EventAddrChange)}, "TimewaitExit": {int(rdmacm.EventTimewaitExit), int(cma.EventTimewaitExit)},
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
