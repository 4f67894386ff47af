package topology

import "fmt"

// Check reports the first contradiction in a fabric that a program built:
// names, GUIDs and LIDs that are not unique, and links that do not agree at
// their two ends. Parse and Generate return fabrics without any.
func (f *Fabric) Check() error {
	ids := make(map[string]bool, len(f.Nodes))
	guids := make(map[uint64]string, len(f.Nodes))
	lids := make(map[uint16]End)
	for i := range f.Nodes {
		n := &f.Nodes[i]
		if ids[n.ID] {
			return fmt.Errorf("two nodes have the ID %q", n.ID)
		}
		ids[n.ID] = true
		if other, ok := guids[n.GUID]; ok {
			return fmt.Errorf("nodes %q and %q have the GUID 0x%016x", other, n.ID, n.GUID)
		}
		guids[n.GUID] = n.ID
		if n.NumPorts() < 1 || n.NumPorts() > MaxPorts {
			return fmt.Errorf("node %q has %d ports, expected 1 to %d", n.ID, n.NumPorts(), MaxPorts)
		}
		if len(n.Description) > MaxDescription {
			return fmt.Errorf("the description of node %q has %d bytes, expected %d at most", n.ID, len(n.Description), MaxDescription)
		}
		for p := range n.Ports {
			if err := f.checkPort(End{i, p}, lids); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkPort checks one port, and claims its LIDs.
func (f *Fabric) checkPort(e End, lids map[uint16]End) error {
	p := f.Port(e)
	if p.Connected() {
		if e.Port == 0 {
			return fmt.Errorf("%s: a management port has no link", f.EndName(e))
		}
		if p.Peer.Node < 0 || p.Peer.Node >= len(f.Nodes) || p.Peer.Port < 1 || p.Peer.Port > f.Nodes[p.Peer.Node].NumPorts() {
			return fmt.Errorf("%s is linked with a port that does not exist", f.EndName(e))
		}
		q := f.Port(p.Peer)
		if p.Peer == e || q.Peer != e || q.Width != p.Width || q.Speed != p.Speed || q.Length != p.Length {
			return fmt.Errorf("%s and %s disagree on their link", f.EndName(e), f.EndName(p.Peer))
		}
	}
	if p.LID == 0 {
		return nil
	}
	return claimLIDs(f, e, lids)
}

// claimLIDs enters the LIDs of a port into lids, and fails if another port has one of them.
func claimLIDs(f *Fabric, e End, lids map[uint16]End) error {
	p := f.Port(e)
	if p.LMC > MaxLMC {
		return fmt.Errorf("%s: expected an LMC of 0 to %d, found %d", f.EndName(e), MaxLMC, p.LMC)
	}
	last := uint32(p.LID) + 1<<p.LMC - 1
	if last > LastUnicastLID {
		return fmt.Errorf("%s: LID %d with LMC %d ends above %d, the last unicast LID", f.EndName(e), p.LID, p.LMC, LastUnicastLID)
	}
	if p.LID&(1<<p.LMC-1) != 0 {
		return fmt.Errorf("%s: LID %d is no multiple of %d, as LMC %d demands", f.EndName(e), p.LID, 1<<p.LMC, p.LMC)
	}
	for l := uint32(p.LID); l <= last; l++ {
		if other, ok := lids[uint16(l)]; ok {
			return fmt.Errorf("%s and %s both have LID %d", f.EndName(other), f.EndName(e), l)
		}
		lids[uint16(l)] = e
	}
	return nil
}

// AssignLIDs gives every end port without a LID the lowest free range of
// 2^lmc LIDs, in the order of nodes and ports, and leaves the others as they
// are. A switch has one LID unless its port 0 is enhanced (IBTA 14.2.5.6, LMC).
func (f *Fabric) AssignLIDs(lmc uint8) error {
	lids := make(map[uint16]End)
	for i := range f.Nodes {
		for p := range f.Nodes[i].Ports {
			e := End{i, p}
			if f.Port(e).LID == 0 {
				continue
			}
			if err := claimLIDs(f, e, lids); err != nil {
				return err
			}
		}
	}
	var next [MaxLMC + 1]uint32
	for i := range f.Nodes {
		n := &f.Nodes[i]
		first, last := n.EndPorts()
		for p := first; p <= last; p++ {
			if n.Ports[p].LID != 0 || n.Kind != Switch && !n.Ports[p].Connected() {
				continue
			}
			own := lmc
			if n.Kind == Switch && !n.EnhancedPort0 {
				own = 0
			}
			if err := f.assignLID(End{i, p}, own, &next[own], lids); err != nil {
				return err
			}
		}
	}
	return nil
}

// assignLID gives a port the first free range from next on.
func (f *Fabric) assignLID(e End, lmc uint8, next *uint32, lids map[uint16]End) error {
	size := uint32(1) << lmc
	base := max(*next, size) // LID 0 is reserved (IBTA 4.1.3)
search:
	for ; base+size-1 <= LastUnicastLID; base += size {
		for l := base; l < base+size; l++ {
			if _, taken := lids[uint16(l)]; taken {
				continue search
			}
		}
		p := f.Port(e)
		p.LID, p.LMC = uint16(base), lmc
		*next = base + size
		return claimLIDs(f, e, lids)
	}
	return fmt.Errorf("%s: no %d free LIDs are left", f.EndName(e), size)
}
