package cm

import (
	"net/netip"
	"slices"

	"softrdma/internal/qp"
	"softrdma/internal/reason"
	"softrdma/internal/wire/mad"
)

// A Port holds what the subnet manager has configured at a port of an InfiniBand fabric. It is
// never changed.
type Port struct {
	GIDs  []netip.Addr // the first one is used in requests
	LID   uint16
	LMC   uint8
	MTU   int      // active, bytes
	PKeys []uint16 // by index; 0 for an empty entry
}

// A site is where a device is in its network, by which it recognizes peers.
type site struct {
	port *Port // on an InfiniBand fabric; otherwise nil
	gid  mad.GID
}

// Configure makes the Manager that of a port on an InfiniBand fabric, or tells it what the
// subnet manager has changed. Its endpoints are those of qp.LIDEndpoint, or GIDs with the LID
// as number. Connections keep their paths.
func (m *Manager) Configure(p *Port) {
	m.port = p
	m.config.MTU = p.MTU
	m.gid = mad.GID{}
	if len(p.GIDs) > 0 {
		m.gid = mad.GIDFrom(p.GIDs[0])
	}
}

// route returns the route of a path in a partition of the port's.
func (s *site) route(p *qp.Path, key uint16) Route {
	i, _ := s.pkeyIndex(or(key, defaultPKey))
	return Route{*p, i}
}

// hasGID reports whether requests to a GID are for this device.
func (s *site) hasGID(g mad.GID) bool {
	if s.port == nil {
		return g == s.gid
	}
	return g != mad.GID{} && slices.ContainsFunc(s.port.GIDs, func(a netip.Addr) bool { return mad.GIDFrom(a) == g })
}

// pkeyIndex returns the entry of the port's table for a path's P_Key.
func (s *site) pkeyIndex(key uint16) (index uint16, ok bool) {
	if s.port == nil {
		return 0, samePartition(key, defaultPKey)
	}
	i := slices.IndexFunc(s.port.PKeys, func(k uint16) bool { return k == key })
	if i < 0 { // the peer may be the full member
		i = slices.IndexFunc(s.port.PKeys, func(k uint16) bool { return k != 0 && samePartition(k, key) && (k|key)&fullMember != 0 })
	}
	return uint16(max(i, 0)), i >= 0
}

// inPartition reports whether the port may communicate with members of a key's partition.
func (s *site) inPartition(key uint16) bool {
	_, ok := s.pkeyIndex(key)
	return ok
}

// checkPKey checks the partition of a request; 0 is the default one.
func (s *site) checkPKey(op string, key uint16) error {
	key = or(key, defaultPKey)
	if s.inPartition(key) {
		return nil
	}
	return &Error{op, "PKey", reason.Detail{Reason: reason.CMPKey, Expected: uint64(s.firstPKey()), Found: uint64(key)}}
}

// firstPKey returns the key that a refusal names as expected.
func (s *site) firstPKey() uint16 {
	if s.port == nil || len(s.port.PKeys) == 0 {
		return defaultPKey
	}
	return s.port.PKeys[0]
}

const fullMember = 0x8000

// samePartition compares P_Keys without their membership (IBTA 10.9.3).
func samePartition(a, b uint16) bool { return (a^b)&^fullMember == 0 }

// pathBits returns the bits of a LID that choose among those of the port.
func (p *Port) pathBits(lid uint16) uint8 { return uint8(lid & (1<<p.LMC - 1)) }

// requestPath fills in the path of a REQ, seen from its sender (IBTA 12.6.5). Like Linux, it
// uses LIDs only on a path within the subnet.
func (p *Port) requestPath(q *mad.Path, c *ConnectParams) {
	q.SL, q.PacketRate = c.Path.ServiceLevel, c.PacketRate
	q.HopLimit, q.LocalLID, q.RemoteLID = c.Path.HopLimit, mad.PermissiveLID, mad.PermissiveLID
	if q.SubnetLocal = !c.Path.Global(); q.SubnetLocal {
		q.RemoteGID = mad.GIDFrom(c.RemoteGID)
		q.LocalLID, q.RemoteLID = p.LID|uint16(c.Path.PathBits), c.Path.LID()
		return
	}
	q.HopLimit = or(q.HopLimit, hopLimit)
}

// replyPath returns the path to the peer's queue pair, from its request and the way that the
// request took.
func (p *Port) replyPath(q *mad.Path, back *qp.Path) qp.Path {
	path := qp.Path{Dst: qp.LIDEndpoint(q.LocalLID), ServiceLevel: q.SL, PathBits: p.pathBits(q.RemoteLID)}
	if q.LocalLID == mad.PermissiveLID { // the sender does not know its own LID as seen from here
		path.Dst, path.ServiceLevel, path.PathBits = qp.LIDEndpoint(back.LID()), back.ServiceLevel, back.PathBits
	}
	if !q.SubnetLocal {
		path.Dst = netip.AddrPortFrom(netip.AddrFrom16(q.LocalGID), path.LID())
		path.FlowLabel, path.TrafficClass, path.HopLimit = q.FlowLabel, q.TrafficClass, q.HopLimit
	}
	return path
}

// home returns an endpoint in the form in which peers are compared. On a fabric that is the
// LID, with or without a GRH. Elsewhere it has no zone, which is only known on this host.
func (s *site) home(a netip.AddrPort) netip.AddrPort {
	if s.port != nil {
		return qp.LIDEndpoint(a.Port())
	}
	return qp.OnWire(a)
}

// same reports whether two endpoints belong to the same peer. Outside a fabric the numbers are
// not compared, because source ports spread flows.
func (s *site) same(a, b netip.AddrPort) bool {
	a, b = s.home(a), s.home(b)
	return a.Addr() == b.Addr() && (s.port == nil || a.Port() == b.Port())
}

// number returns the part of an endpoint that fits in a Detail.
func (s *site) number(a netip.AddrPort) uint64 {
	if s.port != nil {
		return uint64(a.Port())
	}
	return low(a.Addr())
}
