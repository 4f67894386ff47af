package sm

import (
	"maps"
	"slices"

	"softrdma/internal/topology"
	"softrdma/internal/wire/mad/sa"
	"softrdma/internal/wire/mad/smp"
)

// nodeRecords yields a record for each port with a LID.
func (a *administrator) nodeRecords(yield func(sa.Record)) {
	a.subnet.eachEnd(func(e topology.End, n *node) {
		info := n.info
		info.LocalPort, info.PortGUID = uint8(e.Port), n.ports[e.Port].guid
		yield(&sa.NodeRecord{LID: a.subnet.fabric.Port(e).LID, Info: info, Description: n.description})
	})
}

// portRecords yields a record for each port of a switch and each port with a LID that the
// query's capability mask does not exclude.
func (a *administrator) portRecords(q *query) func(yield func(sa.Record)) {
	return func(yield func(sa.Record)) {
		a.subnet.eachEnd(func(e topology.End, n *node) {
			for i := range n.ports {
				if !n.ports[i].known || !n.isSwitch() && i != e.Port {
					continue
				}
				info := n.ports[i].info
				if q.capabilities&^info.CapabilityMask != 0 {
					continue
				}
				if !q.trusted {
					info.MKey = 0 // IBTA 15.4.1.1: the key is for trusted queries
				}
				yield(&sa.PortInfoRecord{LID: a.subnet.fabric.Port(e).LID, Port: uint8(i), Info: info})
			}
		})
	}
}

// portCapabilityMask is the component of the CapabilityMask in a PortInfoRecord.
const portCapabilityMask = 1 << 7

// portCapabilities makes a query of PortInfoRecords select the ports that have at least the
// capabilities of the query, if its modifier says so (IBTA 15.2.5.3).
func (q *query) portCapabilities() {
	if q.header.MAD.Modifier>>31 == 0 || q.header.ComponentMask&portCapabilityMask == 0 {
		return
	}
	var r sa.PortInfoRecord
	r.Parse(&q.data)
	q.capabilities = r.Info.CapabilityMask
	q.header.ComponentMask &^= portCapabilityMask
}

func (a *administrator) switchRecords(yield func(sa.Record)) {
	a.subnet.eachEnd(func(e topology.End, n *node) {
		if n.isSwitch() {
			yield(&sa.SwitchInfoRecord{LID: a.subnet.fabric.Port(e).LID, Info: n.sw})
		}
	})
}

// linkRecords yields both directions of each link.
func (a *administrator) linkRecords(yield func(sa.Record)) {
	for i, n := range a.subnet.view {
		for p := range n.ports {
			from := topology.End{Node: i, Port: p}
			if !a.subnet.fabric.Port(from).Connected() {
				continue
			}
			to := a.subnet.fabric.Port(from).Peer
			yield(&sa.LinkRecord{FromLID: a.subnet.lidAt(from), FromPort: uint8(p), ToPort: uint8(to.Port), ToLID: a.subnet.lidAt(to)})
		}
	}
}

// linearRecords yields the blocks of the forwarding tables that the switches hold.
func (a *administrator) linearRecords(yield func(sa.Record)) {
	const size = len(smp.LinearForwarding{})
	a.subnet.eachEnd(func(e topology.End, n *node) {
		held := a.writer.programmed[n.info.NodeGUID]
		for block := range len(held) / size {
			if n.isSwitch() {
				yield(&sa.LinearForwardingRecord{LID: a.subnet.fabric.Port(e).LID, Block: uint16(block), Table: smp.LinearForwarding(held[block*size:])})
			}
		}
	})
}

// multicastRecords yields the blocks of the multicast tables that the switches hold.
func (a *administrator) multicastRecords(yield func(sa.Record)) {
	a.subnet.eachEnd(func(e topology.End, n *node) {
		held := a.writer.multicast[n.info.NodeGUID]
		for _, k := range slices.SortedFunc(maps.Keys(held), compareBlocks) {
			yield(&sa.MulticastForwardingRecord{LID: a.subnet.fabric.Port(e).LID, Position: uint8(k.position), Block: uint16(k.block), Table: held[k]})
		}
	})
}

// managerRecords yields this manager and those that it knows.
func (a *administrator) managerRecords(yield func(sa.Record)) {
	own := a.ownInfo()
	own.SMKey = 0
	yield(&sa.SMInfoRecord{LID: a.subnet.ownLID(), Info: own})
	for i := range a.discovery.managers {
		info := a.discovery.managers[i].info
		info.SMKey = 0
		yield(&sa.SMInfoRecord{LID: a.subnet.lids[info.GUID].lid, Info: info})
	}
}
