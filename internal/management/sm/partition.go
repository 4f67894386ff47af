package sm

import (
	"encoding/binary"
	"slices"

	"softrdma/internal/topology"
	"softrdma/internal/wire/mad"
	"softrdma/internal/wire/mad/sa"
	"softrdma/internal/wire/mad/smp"
)

// A Membership is how far a port is in a partition (IBTA 10.9.1.2).
type Membership uint8

// The memberships. Limited members reach full ones only.
const (
	NoMember Membership = iota
	LimitedMember
	FullMember
)

// A Partition is a set of ports that may send to each other.
type Partition struct {
	Key     uint16 // 15 bits
	IPoIB   bool   // the partition has IPoIB's broadcast group
	All     Membership
	Members map[uint64]Membership // by port GUID; the others are in as All says
}

// defaultPartition is the partition of a manager without a configuration.
var defaultPartition = []Partition{{Key: smp.DefaultPKey &^ smp.FullMember, IPoIB: true, All: FullMember}}

func (s *subnet) partitions() []Partition {
	if s.config.Partitions == nil {
		return defaultPartition
	}
	return s.config.Partitions
}

// keys are the P_Keys of a port. The first is that of the default partition, by which ports
// reach the administrator: the manager's port is a full member, every other at least a limited
// one (IBTA 10.9.1.2).
func (s *subnet) keys(guid uint64) []uint16 {
	keys := []uint16{smp.DefaultPKey &^ smp.FullMember}
	if guid == s.config.GUID {
		keys[0] = smp.DefaultPKey
	}
	for _, p := range s.partitions() {
		is, named := p.Members[guid]
		if !named {
			is = p.All
		}
		key := p.Key &^ smp.FullMember
		if is == FullMember {
			key |= smp.FullMember
		}
		switch {
		case is == NoMember:
		case p.Key&^smp.FullMember == smp.DefaultPKey&^smp.FullMember:
			keys[0] |= key
		default:
			keys = append(keys, key)
		}
	}
	return keys
}

// inPartition reports whether a port is in the partition of a P_Key. A key of 0 names none, and
// every port passes.
func (s *subnet) inPartition(e topology.End, key uint16) bool {
	return key&^smp.FullMember == 0 || slices.ContainsFunc(s.portKeys[s.fabric.Port(e).GUID], func(k uint16) bool { return (k^key)&^smp.FullMember == 0 })
}

// sharedPartition is the P_Key by which a port reaches another one, and reports whether there is
// one. If wanted is not 0, it is the partition.
func (s *subnet) sharedPartition(from, to topology.End, wanted uint16) (uint16, bool) {
	for _, a := range s.portKeys[s.fabric.Port(from).GUID] {
		if wanted&^smp.FullMember != 0 && (a^wanted)&^smp.FullMember != 0 {
			continue
		}
		for _, b := range s.portKeys[s.fabric.Port(to).GUID] {
			if from == to && a == b || (a^b)&^smp.FullMember == 0 && (a|b)&smp.FullMember != 0 {
				return a, true
			}
		}
	}
	return 0, false
}

// joinPartitions sets the partition table of an adapter's port, or that of the switch's port at
// the other end of its link, and calls done when it is set. Without an answer the port stays as
// it is, so that the next sweep tries again.
func (w *writer) joinPartitions(n *node, i int, done func()) {
	keys, room := w.subnet.keys(n.ports[i].guid), int(n.info.PartitionCap)
	if n.isSwitch() {
		// A switch lets both kinds of members pass: the receiver compares them.
		keys, room = w.subnet.keys(n.ports[i].peer.ports[n.ports[i].peerPort].guid), int(n.sw.PartitionCap)
		for k := range keys {
			keys[k] |= smp.FullMember
		}
	}
	blocks := 1
	if w.config.Partitions != nil { // other managers may have left keys in any block
		blocks = n.partitionBlocks(i)
	}
	if len(keys) > room {
		w.requests.failures++
		keys = keys[:room]
	}
	left, failed := blocks, false
	for block := range blocks {
		var t smp.PKeyTable
		if at := block * len(t); at < len(keys) {
			copy(t[:], keys[at:])
		}
		w.requests.set(n.route(i), smp.AttrPKeyTable, smp.PKeyModifier(n.modifierPort(i), block), &t, func(p *smp.Packet) {
			failed = failed || p == nil
			if left--; left == 0 && !failed {
				done()
			}
		})
	}
}

// enforces reports whether a switch keeps partitions apart at a port, which leads to an adapter.
func (w *writer) enforces(n *node, i int) bool {
	q := &n.ports[i]
	return w.config.Partitions != nil && n.isSwitch() && i > 0 && q.peer != nil && !q.peer.isSwitch() &&
		n.sw.EnforceInbound && n.sw.EnforceOutbound && len(w.subnet.keys(q.peer.ports[q.peerPort].guid)) <= int(n.sw.PartitionCap)
}

// ipoibQKey is the Q_Key that hosts expect of IPoIB's groups.
const ipoibQKey = 0x0b1b

// createBroadcastGroups makes the broadcast groups of the partitions with IPoIB (RFC 4391 4),
// which stay without members.
func (gs *groups) createBroadcastGroups() {
	for _, p := range gs.subnet.partitions() {
		mgid := mad.GID{0: 0xff, 1: 0x12, 2: 0x40, 3: 0x1b, 12: 0xff, 13: 0xff, 14: 0xff, 15: 0xff}
		binary.BigEndian.PutUint16(mgid[4:], p.Key|smp.FullMember)
		mlid, ok := gs.freeMLID()
		if !p.IPoIB || !ok || gs.byMGID[mgid] != nil {
			continue
		}
		exactly := func(v uint8) sa.Limit { return sa.Limit{Selector: sa.Exactly, Value: v} }
		gs.byMGID[mgid] = &group{permanent: true, members: make(map[uint64]member), record: sa.MCMemberRecord{MGID: mgid, MLID: mlid, QKey: ipoibQKey,
			PKey: p.Key | smp.FullMember, MTU: exactly(groupMTU), Rate: exactly(groupRate), LifeTime: exactly(pathLifeTime), Scope: linkLocal}}
	}
}
