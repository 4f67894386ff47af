package cmid

import "fmt"

// A State is the state of an id. The numbers are those of the kernel's
// rdma_cm_state.
type State uint8

// The states.
const (
	Idle State = iota
	AddrQuery
	AddrResolved
	RouteQuery
	RouteResolved
	Connect    // connecting or connected, on either side
	Disconnect // the connection has ended
	AddrBound
	Listen
	DeviceRemoval
	Destroying
)

var stateNames = [...]string{
	"IDLE", "ADDR_QUERY", "ADDR_RESOLVED", "ROUTE_QUERY", "ROUTE_RESOLVED", "CONNECT", "DISCONNECT", "ADDR_BOUND",
	"LISTEN", "DEVICE_REMOVAL", "DESTROYING",
}

// String returns the kernel's name without its prefix.
func (s State) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return fmt.Sprintf("state %d", uint8(s))
}
