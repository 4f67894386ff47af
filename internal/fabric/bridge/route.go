package bridge

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"

	"softrdma/internal/fabric/dcb"
	"softrdma/internal/reason"
)

// A Balance is how a switch chooses among paths of equal cost.
type Balance uint8

// The ways to choose.
const (
	ByFlow    Balance = iota // a hash of addresses and ports: the frames of a flow keep their order
	ByFlowlet                // a flow that has paused may take another path
	Spray                    // at random for each frame, so that frames of a flow overtake each other
)

// DefaultFlowlet is longer than the delays of paths in a data center differ.
const DefaultFlowlet = 100 * dcb.Microsecond

// flowlets is the number of flows, by their hash, whose last path a switch remembers.
const flowlets = 4096

// A Hop is where a route leads: a port, and the address of the neighbor there.
type Hop struct {
	Port    int
	Address dcb.Address
}

// routes are the IP routes of a switch.
type routes struct {
	config   *Config
	lengths  []prefixes // longest prefix first
	paths    []*paths   // that routes lead to
	count    int
	stations map[dcb.Address]*paths // static filtering entries (802.1Q 8.8.1)
	flowlets []flowlet
	recent   *[recent]found // what find has found, by a hash of the address; nil if nothing
}

// recent is the number of addresses whose paths a switch remembers.
const recent = 512

// A found is an address and the paths to it.
type found struct {
	to dcb.IP
	e  *paths
}

// prefixes are routes to prefixes of one length.
type prefixes struct {
	mask dcb.IP
	bits int
	to   map[dcb.IP]*paths
}

// paths are where routes lead. Routes to the same hops share them.
type paths struct {
	hops []Hop
	live []Hop // those whose link is up
}

type flowlet struct {
	hop  Hop
	last dcb.Time
}

func (r *routes) init(c *Config) {
	r.config = c
	if c.Flowlet == 0 {
		c.Flowlet = DefaultFlowlet
	}
	if c.Balance == ByFlowlet {
		r.flowlets = make([]flowlet, flowlets)
	}
}

// AddRoute adds a route to an IPv4 or IPv6 prefix, or replaces it.
func (s *Switch) AddRoute(to netip.Prefix, hops ...Hop) {
	n := to.Bits()
	if to.Addr().Is4() {
		n += 96
	}
	r := &s.routes
	i, found := slices.BinarySearchFunc(r.lengths, n, func(p prefixes, n int) int { return n - p.bits })
	if !found {
		r.lengths = slices.Insert(r.lengths, i, prefixes{maskOf(n), n, make(map[dcb.IP]*paths)})
	}
	p := &r.lengths[i]
	before := len(p.to)
	p.to[and(dcb.IPFrom(to.Addr().As16()), p.mask)] = r.share(s, hops)
	r.count += len(p.to) - before
	r.recent = nil
}

// AddStation says by which ports frames to the MAC address of a host leave, instead of what the switch
// learns. The addresses of the hops are not used.
func (s *Switch) AddStation(a dcb.Address, hops ...Hop) {
	r := &s.routes
	if r.stations == nil {
		r.stations = make(map[dcb.Address]*paths)
	}
	r.stations[a] = r.share(s, hops)
}

// station returns the port by which a frame to the MAC address of a host leaves, 0 if no path is known.
func (s *Switch) station(now dcb.Time, f *dcb.Frame) int {
	if e := s.routes.stations[f.Dst]; e != nil && len(e.live) > 0 {
		return s.next(now, e, f).Port
	}
	return 0
}

// share returns the paths of hops.
func (r *routes) share(s *Switch, hops []Hop) *paths {
	for _, e := range slices.Backward(r.paths) { // routes to neighbors are added one after the other
		if slices.Equal(e.hops, hops) {
			return e
		}
	}
	e := &paths{hops: slices.Clone(hops)}
	e.follow(s)
	r.paths = append(r.paths, e)
	return e
}

func maskOf(n int) (m dcb.IP) {
	switch {
	case n > 64:
		m.Hi, m.Lo = ^uint64(0), ^uint64(0)<<(128-n)
	case n > 0:
		m.Hi = ^uint64(0) << (64 - n)
	}
	return m
}

func and(a, b dcb.IP) dcb.IP { return dcb.IP{Hi: a.Hi & b.Hi, Lo: a.Lo & b.Lo} }

// follow notes that the links of ports have changed.
func (r *routes) follow(s *Switch) {
	for _, e := range r.paths {
		e.follow(s)
	}
	clear(r.flowlets)
	r.recent = nil
}

// follow leaves out hops whose link is down.
func (e *paths) follow(s *Switch) {
	e.live = e.live[:0]
	for _, h := range e.hops {
		if s.ports[h.Port].Up() {
			e.live = append(e.live, h)
		}
	}
}

// find returns the paths to an address, of which one is up at least, nil if there are none.
func (r *routes) find(to dcb.IP) *paths {
	if r.recent == nil {
		if len(r.lengths) == 0 {
			return nil
		}
		r.recent = new([recent]found)
	}
	m := &r.recent[(to.Lo^to.Hi)*0x9e3779b97f4a7c15>>32%recent]
	if m.to != to || m.e == nil {
		*m = found{to, r.search(to)}
	}
	return m.e
}

// search is find without what it remembers.
func (r *routes) search(to dcb.IP) *paths {
	for i := range r.lengths {
		p := &r.lengths[i]
		if e := p.to[and(to, p.mask)]; e != nil && len(e.live) > 0 {
			return e
		}
	}
	return nil
}

// route forwards a packet of IP to the next hop.
func (s *Switch) route(now dcb.Time, f *dcb.Frame) {
	in := int(f.In)
	if !f.IP {
		s.local(now, in, f, reason.Detail{Reason: reason.EthernetRoute, Expected: uint64(s.routes.count)})
		return
	}
	e := s.routes.find(f.To)
	switch {
	case e == nil:
		s.local(now, in, f, reason.Detail{Reason: reason.EthernetRoute, Expected: uint64(s.routes.count), Found: f.To.Lo & 0xffffffff})
		return
	case f.Hops <= 1: // RFC 1812 5.3.1
		s.drop(now, in, f, reason.Detail{Reason: reason.EthernetHops, Expected: 2, Found: uint64(f.Hops)})
		return
	}
	if !s.admit(now, f) {
		return
	}
	h := s.next(now, e, f)
	f.Forward(s.config.Address, h.Address)
	if s.config.Remark != nil {
		f.Remark(s.Remarked(f.DSCP))
		f.Priority = s.priority(&s.ports[in], f)
	}
	s.push(now, h.Port, s.ports[h.Port].config.VLAN, f)
}

// next returns the next hop of a frame.
func (s *Switch) next(now dcb.Time, e *paths, f *dcb.Frame) Hop {
	if len(e.live) == 1 {
		return e.live[0]
	}
	switch s.config.Balance {
	case Spray:
		return e.live[pick(s.rand(), len(e.live))]
	case ByFlowlet:
		l := &s.routes.flowlets[f.Flow%flowlets]
		if l.hop.Port == 0 || now-l.last > s.config.Flowlet || !slices.Contains(e.live, l.hop) {
			l.hop = e.live[pick(s.rand(), len(e.live))]
		}
		l.last = now
		return l.hop
	}
	return e.live[s.byFlow(e, f)]
}

// Paths returns the next hops to an address whose link is up, which the caller does not change.
func (s *Switch) Paths(to dcb.IP) []Hop {
	if e := s.routes.find(to); e != nil {
		return e.live
	}
	return nil
}

// Path returns the next hop that the switch would choose for a frame now, if the frame alone decides
// that (ByFlow, or one path), and those among which it chooses.
func (s *Switch) Path(f *dcb.Frame) (h Hop, among []Hop, decided bool) {
	e := s.routes.find(f.To)
	switch {
	case e == nil:
		return h, nil, false
	case len(e.live) == 1 || s.config.Balance == ByFlow:
		return e.live[s.byFlow(e, f)], e.live, true
	}
	return e.live[0], e.live, false
}

// byFlow returns the number of the path that the hash of a frame's flow chooses.
func (s *Switch) byFlow(e *paths, f *dcb.Frame) int {
	return pick(dcb.Mix(f.Flow^s.config.Seed), len(e.live))
}

// CountRoutes returns the number of routes.
func (s *Switch) CountRoutes() int { return s.routes.count }

// Routes calls f with each route, in the order of the prefixes, its hops and those whose link is up.
func (s *Switch) Routes(f func(to netip.Prefix, hops, live []Hop)) {
	for i := range s.routes.lengths {
		p := &s.routes.lengths[i]
		all := slices.SortedFunc(maps.Keys(p.to), func(a, b dcb.IP) int { return cmp.Or(cmp.Compare(a.Hi, b.Hi), cmp.Compare(a.Lo, b.Lo)) })
		for _, to := range all {
			a, n := to.Addr(), p.bits
			if a.Is4() {
				n -= 96
			}
			f(netip.PrefixFrom(a, n), p.to[to].hops, p.to[to].live)
		}
	}
}

// pick returns a number below n from a random one.
func pick(random uint64, n int) int { return int(random >> 32 * uint64(n) >> 32) }

func (s *Switch) rand() uint64 {
	s.random += 0x9e3779b97f4a7c15
	return dcb.Mix(s.random)
}

// ClearRoutes removes all routes and stations.
func (s *Switch) ClearRoutes() {
	r := &s.routes
	r.lengths, r.paths, r.count, r.recent, r.stations = nil, nil, 0, nil, nil
	clear(s.routes.flowlets)
}
