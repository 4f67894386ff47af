package sm

import (
	"softrdma/internal/fabric/topology"
	"softrdma/internal/wire/mad"
	"softrdma/internal/wire/mad/sa"
	"softrdma/internal/wire/mad/smp"
)

// pathLifeTime is the PacketLifeTime of all paths: a second.
const pathLifeTime = 18

// pathRecord answers a query for a path (IBTA 15.2.5.16). Source and destination
// are given by GID or LID.
func (m *Manager) pathRecord(mask uint64, query, record *[sa.DataLen]byte) uint16 {
	var q sa.PathRecord
	q.Parse(query)
	if mask&(sa.PathSGID|sa.PathSLID) == 0 || mask&(sa.PathDGID|sa.PathDLID) == 0 {
		return sa.StatusTooFew
	}
	from, slid, ok := m.pathEnd(mask&sa.PathSGID != 0, q.SGID, mask&sa.PathSLID != 0, q.SLID)
	if !ok {
		return sa.StatusNoRecords
	}
	to, dlid, ok := m.pathEnd(mask&sa.PathDGID != 0, q.DGID, mask&sa.PathDLID != 0, q.DLID)
	if !ok {
		return sa.StatusNoRecords
	}
	links, err := m.tables.Path(from, dlid)
	if err != nil {
		return sa.StatusNoRecords
	}
	mtu, rate := m.linkLimits(from, links)
	p := sa.PathRecord{DGID: m.gid(to), SGID: m.gid(from), DLID: dlid, SLID: slid, Reversible: true, NumPaths: 1, PKey: smp.DefaultPKey,
		MTU: sa.Limit{Selector: sa.Exactly, Value: uint8(mtu)}, Rate: sa.Limit{Selector: sa.Exactly, Value: rate},
		LifeTime: sa.Limit{Selector: sa.Exactly, Value: pathLifeTime}}
	if m.tables.SL != nil {
		p.SL = m.tables.SL(slid, dlid)
	}
	const mtuLimit, rateLimit, lifeLimit = sa.PathMTU | sa.PathMTUSelector, sa.PathRate | sa.PathRateSelector, sa.PathLifeTime | sa.PathLifeTimeSelector
	switch {
	case mask&mtuLimit == mtuLimit && !q.MTU.Allows(p.MTU.Value),
		mask&rateLimit == rateLimit && !allowsRate(q.Rate, rate),
		mask&lifeLimit == lifeLimit && !q.LifeTime.Allows(pathLifeTime),
		mask&sa.PathSL != 0 && q.SL != p.SL,
		mask&sa.PathPKey != 0 && q.PKey|smp.FullMember != p.PKey:
		return sa.StatusNoRecords
	}
	p.Put(record)
	return mad.StatusOK
}

// pathEnd finds one end of a path, and the LID to use.
func (m *Manager) pathEnd(hasGID bool, gid mad.GID, hasLID bool, lid uint16) (topology.End, uint16, bool) {
	var e topology.End
	ok := true
	if hasGID {
		if e, ok = m.findEnd(gid); !ok {
			return e, 0, false
		}
	}
	if hasLID {
		at, ok := m.findLID(lid)
		return at, lid, ok && (!hasGID || at == e)
	}
	return e, m.fabric.Port(e).LID, ok
}

// linkLimits are the smallest MTU and rate of the links of a path. A path from a
// port to itself has those of the port.
func (m *Manager) linkLimits(from topology.End, links []topology.End) (mtu mad.MTU, rate uint8) {
	if len(links) == 0 {
		links = []topology.End{from}
	}
	mtu = mad.MTU(5)
	least := len(rates) - 1
	for _, e := range links {
		p := m.fabric.Port(e)
		if !p.Connected() {
			return m.view[e.Node].ports[e.Port].info.MTUCap, rates[0].code // a switch's port 0
		}
		mtu = min(mtu, m.view[e.Node].ports[e.Port].config.NeighborMTU)
		least = min(least, rateIndex(p.Width, p.Speed))
	}
	return mtu, rates[least].code
}

// rates are the codes of a PathRecord's Rate (IBTA 15.2.5.16) in the order of
// what they stand for, in units of 0.1 Gb/s.
var rates = []struct {
	code   uint8
	tenths int
}{
	{2, 25}, {5, 50}, {3, 100}, {11, 140}, {6, 200}, {15, 250}, {19, 280}, {4, 300}, {7, 400}, {20, 500}, {12, 560}, {8, 600}, {9, 800},
	{16, 1000}, {13, 1120}, {10, 1200}, {14, 1680}, {17, 2000}, {18, 3000}, {21, 4000}, {22, 6000}, {23, 8000}, {24, 12000},
}

// rateIndex is the greatest rate that a link has.
func rateIndex(w topology.Width, s topology.Speed) int {
	lane := map[topology.Speed]int{topology.SDR: 25, topology.DDR: 50, topology.QDR: 100, topology.FDR10: 100, topology.FDR: 140,
		topology.EDR: 250, topology.HDR: 500, topology.NDR: 1000, topology.XDR: 2000}[s]
	index := 0
	for i := range rates {
		if rates[i].tenths <= lane*int(w) {
			index = i
		}
	}
	return index
}

// allowsRate compares rates, whose codes are not in their order.
func allowsRate(l sa.Limit, code uint8) bool {
	limit, rate := 0, 0
	for i := range rates {
		if rates[i].code == l.Value {
			limit = i + 1
		}
		if rates[i].code == code {
			rate = i + 1
		}
	}
	return limit != 0 && sa.Limit{Selector: l.Selector, Value: uint8(limit)}.Allows(uint8(rate))
}
