package host

import "net/netip"

// A PortState is the state of a device's port that can change while it is open.
type PortState struct {
	Up   bool // the interface exists, is up and running
	Addr bool // the interface has the address
}

// State returns the current state of a choice.
func State(c Choice) (PortState, error) {
	list, err := Interfaces()
	if err != nil {
		return PortState{}, err
	}
	var s PortState
	for _, i := range list {
		if i.Index != c.Interface.Index {
			continue
		}
		s.Up = i.Up
		if a, ok := linkLocal(i); ok && a == c.Addr.Addr() { // RoCE v1 has it without configuration
			s.Addr = true
		}
		for _, a := range i.Addrs {
			s.Addr = s.Addr || a.WithZone("") == c.Addr.Addr().WithZone("") || local(i, c.Addr.Addr())
		}
	}
	return s, nil
}

// local reports whether an address belongs to the interface without being configured:
// Linux treats all of 127.0.0.0/8 as addresses of the loopback interface.
func local(i Interface, a netip.Addr) bool { return i.Loopback && a.Is4() && a.IsLoopback() }
