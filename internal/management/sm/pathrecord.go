package sm

import (
	"softrdma/internal/topology"
	"softrdma/internal/wire/mad"
	"softrdma/internal/wire/mad/rmpp"
	"softrdma/internal/wire/mad/sa"
	"softrdma/internal/wire/mad/smp"
)

// pathLifeTime is the PacketLifeTime of all paths: a second.
const pathLifeTime = 18

// maxPaths is how many pairs of ports one query may make the administrator route.
const maxPaths = 1 << 18

// A pathFinder answers queries for paths.
type pathFinder struct {
	subnet  *subnet
	replies *replies
}

// paths answers a query for paths (IBTA 15.2.5.16). Source and destination are given by GID or
// LID. A Get has both and gets the first path, a GetTable all paths that match.
func (f *pathFinder) paths(q *query) {
	var r sa.PathRecord
	r.Parse(&q.data)
	mask := q.header.ComponentMask
	get := q.header.MAD.Method == mad.MethodGet
	if get && (mask&(sa.PathSGID|sa.PathSLID) == 0 || mask&(sa.PathDGID|sa.PathDLID) == 0) {
		f.replies.refuse(q, sa.StatusTooFew)
		return
	}
	from := f.pathEnds(mask&sa.PathSGID != 0, r.SGID, mask&sa.PathSLID != 0, r.SLID)
	to := f.pathEnds(mask&sa.PathDGID != 0, r.DGID, mask&sa.PathDLID != 0, r.DLID)
	want := pathQuery{mask: mask, record: r, limit: 1<<7 - 1}
	if get {
		want.limit = 1
	} else if mask&sa.PathNumPaths != 0 && r.NumPaths > 0 {
		want.limit = int(r.NumPaths)
	}
	t := newTable(q)
	if !f.addPaths(t, &want, from, to) {
		f.replies.refuse(q, sa.StatusNoResources)
		return
	}
	f.replies.answerTable(q, t)
}

// A pathQuery is what a query for paths says of them.
type pathQuery struct {
	mask   uint64
	record sa.PathRecord
	limit  int // paths of each pair of ports
}

// A pathEnd is a port with the LIDs that a path may use.
type pathEnd struct {
	end  topology.End
	lids []uint16
}

// pathEnds lists the ports that a GID or LID names, or all.
func (f *pathFinder) pathEnds(hasGID bool, gid mad.GID, hasLID bool, lid uint16) (list []pathEnd) {
	if hasGID || hasLID {
		e, ok := f.subnet.findEnd(gid)
		at, found := f.subnet.findLID(lid)
		switch {
		case hasGID && !ok, hasLID && !found, hasGID && hasLID && at != e:
			return nil
		case hasLID:
			return []pathEnd{{at, []uint16{lid}}}
		}
		return []pathEnd{{e, f.subnet.lidsOf(e)}}
	}
	f.subnet.eachEnd(func(e topology.End, _ *node) { list = append(list, pathEnd{e, f.subnet.lidsOf(e)}) })
	return list
}

// addPaths adds the paths between ports to a table, and reports whether it has room for them.
func (f *pathFinder) addPaths(t *table, want *pathQuery, from, to []pathEnd) bool {
	if len(from)*len(to) > maxPaths {
		return false
	}
	for _, a := range from {
		for _, b := range to {
			// Equal path bits are different ways through the fabric.
			for i, n := 0, 0; i < max(len(a.lids), len(b.lids)) && n < want.limit; i++ {
				p, ok := f.path(a.end, a.lids[i%len(a.lids)], b.end, b.lids[i%len(b.lids)], want.partition())
				if !ok || !want.allows(&p) {
					continue
				}
				n++
				var d [sa.DataLen]byte
				p.Put(&d)
				if !t.add(&d) {
					return false
				}
			}
		}
	}
	return true
}

// partition is the partition that a query asks for, or 0.
func (want *pathQuery) partition() uint16 {
	if want.mask&sa.PathPKey == 0 {
		return 0
	}
	return want.record.PKey
}

// path is the path from a port to a LID, and reports whether there is one. If partition is not
// 0, the path is in it.
func (f *pathFinder) path(from topology.End, slid uint16, to topology.End, dlid, partition uint16) (p sa.PathRecord, ok bool) {
	links, err := f.subnet.tables.Path(from, dlid)
	key, shared := f.subnet.sharedPartition(from, to, partition)
	if err != nil || !shared {
		return p, false
	}
	mtu, rate := f.linkLimits(from, links)
	p = sa.PathRecord{DGID: f.subnet.gid(to), SGID: f.subnet.gid(from), DLID: dlid, SLID: slid, Reversible: true, NumPaths: 1, PKey: key,
		MTU: sa.Limit{Selector: sa.Exactly, Value: uint8(mtu)}, Rate: sa.Limit{Selector: sa.Exactly, Value: rate},
		LifeTime: sa.Limit{Selector: sa.Exactly, Value: pathLifeTime}}
	if f.subnet.tables.SL != nil {
		p.SL = f.subnet.tables.SL(slid, dlid)
	}
	return p, true
}

// allows reports whether a path has what a query asks for, and gives it what the query chooses.
func (want *pathQuery) allows(p *sa.PathRecord) bool {
	const mtuLimit, rateLimit, lifeLimit = sa.PathMTU | sa.PathMTUSelector, sa.PathRate | sa.PathRateSelector, sa.PathLifeTime | sa.PathLifeTimeSelector
	q, mask := &want.record, want.mask
	switch {
	case mask&mtuLimit == mtuLimit && !q.MTU.Allows(p.MTU.Value),
		mask&rateLimit == rateLimit && !allowsRate(q.Rate, p.Rate.Value),
		mask&lifeLimit == lifeLimit && !q.LifeTime.Allows(pathLifeTime),
		mask&sa.PathSL != 0 && q.SL != p.SL,
		mask&sa.PathPKey != 0 && q.PKey|smp.FullMember != p.PKey|smp.FullMember:
		return false
	}
	if mask&sa.PathServiceID != 0 {
		p.ServiceID = q.ServiceID
	}
	if mask&sa.PathFlowLabel != 0 {
		p.FlowLabel = q.FlowLabel
	}
	if mask&sa.PathTrafficClass != 0 {
		p.TrafficClass = q.TrafficClass
	}
	return true
}

// multiPath answers a query for paths between sets of ports (IBTA 15.2.5.20) that one packet
// holds.
func (f *pathFinder) multiPath(q *query) {
	var r sa.MultiPathRecord
	r.Parse(&q.data)
	if r.Sources == 0 || r.Destinations == 0 || int(r.Sources)+int(r.Destinations) > len(r.GIDs) {
		f.replies.refuse(q, sa.StatusInvalid)
		return
	}
	var ends [2][]pathEnd
	for i, gid := range r.GIDs[:r.Sources+r.Destinations] {
		e, ok := f.subnet.findEnd(gid)
		if !ok {
			f.replies.refuse(q, sa.StatusInvalidGID)
			return
		}
		side := 0
		if i >= int(r.Sources) {
			side = 1
		}
		ends[side] = append(ends[side], pathEnd{e, f.subnet.lidsOf(e)})
	}
	if q.header.RMPP.Flags&rmpp.Active != 0 { // a request of one segment, which wants an ACK
		f.replies.waiting = append(f.replies.waiting, q.acknowledgement())
	}
	want := pathQuery{limit: 1<<7 - 1}
	for _, c := range multiPathComponents {
		if q.header.ComponentMask&c.multi != 0 {
			want.mask |= c.single
		}
	}
	want.record = sa.PathRecord{PKey: r.PKey, SL: r.SL, MTU: r.MTU, Rate: r.Rate, LifeTime: r.LifeTime, FlowLabel: r.FlowLabel, TrafficClass: r.TrafficClass}
	t := newTable(q)
	if !f.addPaths(t, &want, ends[0], ends[1]) {
		f.replies.refuse(q, sa.StatusNoResources)
		return
	}
	f.replies.answerTable(q, t)
}

// multiPathComponents are the components of a MultiPathRecord that a path is compared by, and
// those of a PathRecord.
var multiPathComponents = []struct{ multi, single uint64 }{
	{1 << 2, sa.PathFlowLabel}, {1 << 4, sa.PathTrafficClass}, {1 << 7, sa.PathPKey}, {1 << 9, sa.PathSL}, {1 << 10, sa.PathMTUSelector},
	{1 << 11, sa.PathMTU}, {1 << 12, sa.PathRateSelector}, {1 << 13, sa.PathRate}, {1 << 14, sa.PathLifeTimeSelector}, {1 << 15, sa.PathLifeTime},
}

// linkLimits are the smallest MTU and rate of the links of a path. A path from a
// port to itself has those of the port.
func (f *pathFinder) linkLimits(from topology.End, links []topology.End) (mtu mad.MTU, rate uint8) {
	if len(links) == 0 {
		links = []topology.End{from}
	}
	mtu = mad.MTU(5)
	least := len(rates) - 1
	for _, e := range links {
		p := f.subnet.fabric.Port(e)
		if !p.Connected() {
			return f.subnet.view[e.Node].ports[e.Port].info.MTUCap, rates[0].code // a switch's port 0
		}
		mtu = min(mtu, f.subnet.view[e.Node].ports[e.Port].config.NeighborMTU)
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
	limit := ratePlace(l.Value)
	return limit != 0 && sa.Limit{Selector: l.Selector, Value: limit}.Allows(ratePlace(code))
}

// ratePlace is the place of a code in the order of rates, from 1 on, or 0 for an unknown code.
func ratePlace(code uint8) uint8 {
	for i := range rates {
		if rates[i].code == code {
			return uint8(i + 1)
		}
	}
	return 0
}
