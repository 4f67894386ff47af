package link

import (
	"fmt"
	"net/netip"
)

// A NeighbourError reports that the MAC address of an IP address on an interface is unknown.
type NeighbourError struct {
	Addr      netip.Addr
	Interface string
	Err       error // why the network cannot be asked; nil if there was no answer so far
}

// Error contains the address and the interface.
func (e *NeighbourError) Error() string {
	why := "no host there has answered for the address"
	if e.Err != nil {
		why = e.Err.Error()
	}
	return fmt.Sprintf("no MAC address of %v is known on %s: %s", e.Addr, e.Interface, why)
}

// Unwrap returns the system's error.
func (e *NeighbourError) Unwrap() error { return e.Err }
