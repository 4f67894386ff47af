package sm

import (
	"encoding/binary"

	"softrdma/internal/topology"
	"softrdma/internal/wire/mad"
	"softrdma/internal/wire/mad/sa"
	"softrdma/internal/wire/mad/smp"
)

// maxReads is how many blocks queries may read at a time.
const maxReads = 1 << 15

// A tableReader answers queries for tables that sweeps do not read.
type tableReader struct {
	subnet   *subnet
	requests *requests
	replies  *replies
	reading  int // blocks that are being read for queries
}

// A block is a part of a node's table that the manager reads for a query.
type block struct {
	path     []uint8
	modifier uint32
	record   sa.Record // with the place of the block
	parse    func(b *[smp.DataLen]byte)
}

// readTables answers a query for tables that the sweep does not read: it asks the nodes for
// the blocks that the query names, and answers when all have come.
func (tr *tableReader) readTables(q *query) {
	attribute := map[mad.AttributeID]mad.AttributeID{sa.AttrSLtoVLRecord: smp.AttrSLtoVL, sa.AttrVLArbitrationRecord: smp.AttrVLArbitration,
		sa.AttrPKeyTableRecord: smp.AttrPKeyTable, sa.AttrGUIDInfoRecord: smp.AttrGUIDInfo}[q.header.MAD.Attribute]
	if q.header.MAD.Attribute == sa.AttrPKeyTableRecord && !q.trusted { // IBTA 15.4.1.1: of trusted queries alone
		tr.replies.refuse(q, sa.StatusInvalid)
		return
	}
	q.portOfAdapter(tr.subnet)
	var blocks []block
	tr.subnet.eachEnd(func(e topology.End, n *node) {
		for _, b := range tr.blocks(q.header.MAD.Attribute, e, n) {
			if q.names(b.record) {
				blocks = append(blocks, b)
			}
		}
	})
	if tr.reading+len(blocks) > maxReads {
		tr.replies.refuse(q, mad.StatusBusy)
		return
	}
	kept := *q
	left := len(blocks)
	t := newTable(q)
	if left == 0 {
		tr.replies.answerTable(q, t)
		return
	}
	tr.reading += left
	for _, b := range blocks {
		tr.requests.get(b.path, attribute, b.modifier, func(p *smp.Packet) {
			tr.reading--
			if p != nil {
				b.parse(&p.Data)
				kept.addMatch(t, b.record)
			}
			if left--; left == 0 {
				tr.replies.answerTable(&kept, t)
			}
		})
	}
}

// places are the components of the LID, the ports and the block in records of tables.
const places = 1<<3 - 1

// portOfAdapter gives a query of an adapter's port its number. Such queries have 0, because the
// LID names the port already (IBTA 15.2.5.8, 15.2.5.9).
func (q *query) portOfAdapter(s *subnet) {
	const hasLID, hasPort, hasOut = 1 << 0, 1 << 1, 1 << 2
	e, ok := s.findLID(binary.BigEndian.Uint16(q.data[:]))
	if !ok || q.header.ComponentMask&hasLID == 0 || s.view[e.Node].isSwitch() {
		return
	}
	at, component := 2, uint64(hasPort)
	switch q.header.MAD.Attribute {
	case sa.AttrVLArbitrationRecord:
	case sa.AttrSLtoVLRecord:
		at, component = 3, hasOut
	default:
		return
	}
	if q.header.ComponentMask&component != 0 && q.data[at] == 0 {
		q.data[at] = uint8(e.Port)
	}
}

// names reports whether the places that a query names are those of a record.
func (q *query) names(r sa.Record) bool {
	var b [sa.DataLen]byte
	r.Put(&b)
	return sa.Match(q.header.MAD.Attribute, q.header.ComponentMask&places, &q.data, &b)
}

// addMatch adds a record to a table if it matches the query. maxReads keeps the table small.
func (q *query) addMatch(t *table, r sa.Record) {
	var b [sa.DataLen]byte
	r.Put(&b)
	if sa.Match(q.header.MAD.Attribute, q.header.ComponentMask, &q.data, &b) {
		t.add(&b)
	}
}

// blocks lists the blocks of a table of a port with a LID, or of all ports of its switch.
func (tr *tableReader) blocks(a mad.AttributeID, e topology.End, n *node) (list []block) {
	lid := tr.subnet.fabric.Port(e).LID
	ports := []int{e.Port}
	if n.isSwitch() {
		ports = ports[:0]
		for i := range n.ports {
			if i == 0 || n.ports[i].peer != nil {
				ports = append(ports, i)
			}
		}
	}
	switch a {
	case sa.AttrGUIDInfoRecord:
		for i := range (int(n.ports[e.Port].info.GUIDCap) + 7) / 8 {
			r := &sa.GUIDInfoRecord{LID: lid, Block: uint8(i)}
			list = append(list, block{n.route(e.Port), uint32(i), r, r.Table.Parse})
		}
	case sa.AttrPKeyTableRecord:
		for _, p := range ports {
			for i := range n.partitionBlocks(p) {
				r := &sa.PKeyTableRecord{LID: lid, Block: uint16(i), Port: uint8(p)}
				list = append(list, block{n.route(p), smp.PKeyModifier(n.modifierPort(p), i), r, r.Table.Parse})
			}
		}
	case sa.AttrVLArbitrationRecord:
		for _, p := range ports {
			for _, half := range n.arbitrationHalves(p) {
				r := &sa.VLArbitrationRecord{LID: lid, Port: uint8(p), Block: uint8(half)}
				list = append(list, block{n.route(p), smp.ArbitrationModifier(half, n.modifierPort(p)), r, r.Table.Parse})
			}
		}
	case sa.AttrSLtoVLRecord:
		for _, out := range ports {
			if !n.isSwitch() {
				r := &sa.SLtoVLRecord{LID: lid, Out: uint8(out)}
				list = append(list, block{n.route(out), 0, r, r.Table.Parse})
				continue
			}
			for _, in := range ports {
				if out > 0 && in != out {
					r := &sa.SLtoVLRecord{LID: lid, In: uint8(in), Out: uint8(out)}
					list = append(list, block{n.path, smp.SLtoVLModifier(in, out), r, r.Table.Parse})
				}
			}
		}
	}
	return list
}

// modifierPort is the port of a modifier of a table: an adapter has the port by which the
// packet comes.
func (n *node) modifierPort(p int) int {
	if n.isSwitch() {
		return p
	}
	return 0
}

// partitionBlocks is the number of blocks of the partition table of a port.
func (n *node) partitionBlocks(p int) int {
	if n.isSwitch() && p > 0 {
		return (int(n.sw.PartitionCap) + 31) / 32
	}
	return (int(n.info.PartitionCap) + 31) / 32
}

// arbitrationHalves lists the halves of the arbitration tables that a port has.
func (n *node) arbitrationHalves(p int) (halves []int) {
	info := &n.ports[p].info
	if n.isSwitch() && p == 0 {
		return nil
	}
	for _, h := range []struct{ half, length, from int }{
		{smp.ArbitrationLow, int(info.VLArbitrationLowCap), 0}, {smp.ArbitrationLowUpper, int(info.VLArbitrationLowCap), 32},
		{smp.ArbitrationHigh, int(info.VLArbitrationHighCap), 0}, {smp.ArbitrationHighUpper, int(info.VLArbitrationHighCap), 32},
	} {
		if h.length > h.from {
			halves = append(halves, h.half)
		}
	}
	return halves
}
