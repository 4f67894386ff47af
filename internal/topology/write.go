package topology

import (
	"fmt"
	"strings"
)

// Append appends the fabric to b in the format that Parse, ibsim and
// ibnetdiscover's readers share: switches first, then the other nodes.
func (f *Fabric) Append(b []byte) []byte {
	for _, switches := range []bool{true, false} {
		for i := range f.Nodes {
			if (f.Nodes[i].Kind == Switch) == switches {
				b = f.appendNode(b, i)
			}
		}
	}
	return b
}

// appendNode appends a record and an empty line.
func (f *Fabric) appendNode(b []byte, i int) []byte {
	n := &f.Nodes[i]
	b = fmt.Appendf(b, "vendid=0x%x\ndevid=0x%x\nsysimgguid=0x%x\n", n.VendorID, n.DeviceID, n.SystemGUID)
	switch n.Kind {
	case Switch:
		b = fmt.Appendf(b, "switchguid=0x%x(%x)\n", n.GUID, n.Ports[0].GUID)
	case Adapter:
		b = fmt.Appendf(b, "caguid=0x%x\n", n.GUID)
	case Router:
		b = fmt.Appendf(b, "rtguid=0x%x\n", n.GUID)
	}
	b = fmt.Appendf(b, "%s\t%d \"%s\"\t\t# \"%s\"", n.Kind, n.NumPorts(), n.ID, clean(n.Description))
	if n.Kind == Switch {
		port0 := "base"
		if n.EnhancedPort0 {
			port0 = "enhanced"
		}
		b = fmt.Appendf(b, " %s port 0 lid %d lmc %d", port0, n.Ports[0].LID, n.Ports[0].LMC)
	}
	b = append(b, '\n')
	for p := 1; p <= n.NumPorts(); p++ {
		if n.Ports[p].Connected() {
			b = f.appendPort(b, End{i, p})
		}
	}
	return append(b, '\n')
}

// appendPort appends a line of a record.
func (f *Fabric) appendPort(b []byte, e End) []byte {
	n, port := &f.Nodes[e.Node], f.Port(e)
	peer := &f.Nodes[port.Peer.Node]
	b = fmt.Appendf(b, "[%d]", e.Port)
	if n.Kind != Switch {
		b = fmt.Appendf(b, "(%x) ", port.GUID)
	}
	b = fmt.Appendf(b, "\t\"%s\"[%d]", peer.ID, port.Peer.Port)
	lid := peer.Ports[0].LID
	if peer.Kind != Switch {
		b = fmt.Appendf(b, "(%x) ", f.Port(port.Peer).GUID)
		lid = f.Port(port.Peer).LID
	}
	b = append(b, "\t\t# "...)
	if n.Kind != Switch {
		b = fmt.Appendf(b, "lid %d lmc %d ", port.LID, port.LMC)
	}
	b = fmt.Appendf(b, "\"%s\" lid %d %s", clean(peer.Description), lid, LinkName(port.Width, port.Speed))
	if port.Length != 0 {
		b = fmt.Appendf(b, " %v", port.Length)
	}
	return append(b, '\n')
}

// clean removes what would end a description in a file.
func clean(description string) string {
	return strings.Map(func(r rune) rune {
		if r == '"' || r < ' ' {
			return -1
		}
		return r
	}, description)
}
