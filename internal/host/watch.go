package host

import "net/netip"

// A PortState is what can change of a device's port while it is open.
type PortState struct {
	Up   bool // the interface is there, up and running
	Addr bool // the address is one of the interface
}

// State asks the system for the present state of a choice.
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
		for _, a := range i.Addrs {
			s.Addr = s.Addr || a.WithZone("") == c.Addr.Addr().WithZone("") || local(i, c.Addr.Addr())
		}
	}
	return s, nil
}

// local tells whether an address that is not configured is the interface's all
// the same: Linux takes all of 127.0.0.0/8 as local, though only one of it is
// configured.
func local(i Interface, a netip.Addr) bool { return i.Loopback && a.Is4() && a.IsLoopback() }
