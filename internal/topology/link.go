package topology

import "fmt"

// link joins the ports after all nodes are known, and checks that the ends of
// each link, the ports' GUIDs and their LIDs agree.
func (p *parser) link() error {
	at := make(map[End]*link, len(p.links)) // the line of each port
	for i := range p.links {
		l := &p.links[i]
		p.line, p.column = l.line, 1
		if first := at[l.local]; first != nil {
			return p.errorf("each port of a node once", "port %d again, after line %d", l.local.Port, first.line)
		}
		at[l.local] = l
	}
	taken := make(map[End]*link, len(p.links)) // the line that links a port, for those without a line of their own
	for i := range p.links {
		l := &p.links[i]
		p.line, p.column = l.line, l.column
		if _, ok := p.ids[l.peer]; !ok {
			p.warnf("no node %q has a record in this file: port %d of %q is left without a link", l.peer, l.local.Port, p.f.Nodes[l.local.Node].ID)
			continue
		}
		peer, err := p.resolve(l)
		if err != nil {
			return err
		}
		back := at[peer]
		if back != nil {
			if p.ids[back.peer] != l.local.Node || back.peer != p.f.Nodes[l.local.Node].ID || back.port != l.local.Port {
				return p.errorf(fmt.Sprintf("a link that both ends agree on: line %d links %s with %q[%d]", back.line, p.f.EndName(peer), back.peer, back.port),
					"%q[%d]", l.peer, l.port)
			}
		} else if first := taken[peer]; first != nil {
			return p.errorf("a peer that no other link uses", "%q[%d], which line %d links with %s", l.peer, l.port, first.line, p.f.EndName(first.local))
		}
		if back != nil {
			if err := p.agree(l, back); err != nil {
				return err
			}
		}
		taken[peer] = l
		p.join(l, peer, back)
		if l.guid != 0 && p.f.Nodes[peer.Node].Kind != Switch {
			if err := p.peerGUID(l, peer, at[peer]); err != nil {
				return err
			}
		}
	}
	return p.unique(at)
}

// agree checks that two lines name a link of one kind, and a cable of one length.
func (p *parser) agree(a, b *link) error {
	if a.lanes.speeds != 0 && b.lanes.speeds != 0 && a.lanes.ethernet() != b.lanes.ethernet() {
		return p.errorf(fmt.Sprintf("a link of one kind at both ends: that of line %d is %v", b.line, b.lanes), "%v", a.lanes)
	}
	if a.length != 0 && b.length != 0 && a.length != b.length {
		return p.errorf(fmt.Sprintf("a cable of %v, as line %d has it", b.length, b.line), "%v", a.length)
	}
	return nil
}

// join connects the ends of a link. back is the line of the other end, nil if it has none.
func (p *parser) join(l *link, peer End, back *link) {
	first := !p.f.Port(peer).Connected() // each link is here twice, and warned about once
	other, length := lanes{}, l.length
	if back != nil {
		other, length = back.lanes, max(length, back.length)
	}
	w, s, agree := negotiate(l.lanes, other)
	p.f.connect(l.local, peer, cable{w, s, length})
	switch none := l.lanes.widths|other.widths == 0 || l.lanes.speeds|other.speeds == 0; {
	case !first:
	case !agree:
		p.warnf("this end of the link is %v, that of line %d is %v: it becomes %s", l.lanes, back.line, other, LinkName(w, s))
	case none && (l.gap || back != nil && back.gap):
		p.warnf("the width or speed of the link is unknown at both ends: it becomes %s", LinkName(w, s))
	}
}

// resolve finds the port that a line names as its peer, a node of the file.
func (p *parser) resolve(l *link) (End, error) {
	node := p.ids[l.peer]
	peer := End{node, l.port}
	if n := &p.f.Nodes[node]; l.port > n.NumPorts() {
		return End{}, p.errorf(fmt.Sprintf("a port from 1 to %d, as node %q has", n.NumPorts(), n.ID), "port %d", l.port)
	}
	if peer == l.local {
		return End{}, p.errorf("a link between two ports", "port %d linked with itself", l.port)
	}
	return peer, nil
}

// peerGUID compares or takes the GUID that a switch's line has for an adapter's port.
func (p *parser) peerGUID(l *link, peer End, back *link) error {
	port := p.f.Port(peer)
	if back == nil {
		port.GUID = l.guid
	}
	if port.GUID != l.guid {
		return p.errorf(fmt.Sprintf("GUID %x, as line %d has for %s", port.GUID, back.line, p.f.EndName(peer)), "%x", l.guid)
	}
	return nil
}

// unique checks that no two ports have the same GUID or LID.
func (p *parser) unique(at map[End]*link) error {
	guids := make(map[uint64]End)
	lids := make(map[uint16]End)
	for i := range p.f.Nodes {
		n := &p.f.Nodes[i]
		for number := range n.Ports {
			e := End{i, number}
			p.line, p.column = p.guids[n.GUID], 1
			if l := at[e]; l != nil {
				p.line, p.column = l.line, l.column
			}
			port := &n.Ports[number]
			if n.Kind != Switch && number > 0 {
				if other, ok := guids[port.GUID]; ok {
					return p.errorf("a port GUID that no other port has", "%x, which %s has", port.GUID, p.f.EndName(other))
				}
				guids[port.GUID] = e
			}
			if port.LID == 0 {
				continue
			}
			if err := claimLIDs(p.f, e, lids); err != nil {
				return p.errorf("LIDs that no other port has", "%v", err)
			}
		}
	}
	return nil
}
