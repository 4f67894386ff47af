// Package bridge is an Ethernet switch: it learns addresses, forwards frames of VLANs, routes
// IPv4 and IPv6 over several paths of equal cost, and shares its buffer among ports and priorities,
// lossy ones and those that it pauses before they lose a frame.
//
//	         +------------------------- Switch --------------------------+
//	Receive  | classify -> learn -> route or look up -> admit to buffer   |
//	-------->|        (VLAN, priority)                     |              |
//	         |                 Stop/Go of the port <-------+--> mark (ECN)|
//	Run      |                                             v              | Transmit
//	-------->|                                      queue of dcb.Port --->|-------->
//	         +------------------------------------------------------------+
//
// A frame is in the buffer from its first byte in to its first byte out.
//
// The package does no I/O and reads no clock. A switch belongs to one goroutine at a time.
package bridge

import (
	"math/bits"

	"softrdma/internal/fabric/dcb"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ethernet"
)

// DefaultHop is the time from the first byte of a frame in a switch to the first one out of it.
const DefaultHop = 230 * dcb.Nanosecond

// A Trust is what a switch takes a frame's priority from.
type Trust uint8

// The kinds of trust. A frame without what is trusted has the port's priority.
const (
	TrustDSCP Trust = iota // DSCP of IP and RoCE v1; the tag of other frames
	TrustPCP               // priority code point of the tag
)

// A Config is what a switch is made with.
type Config struct {
	Ports   []PortConfig // of ports 1 to n; the first element is not used
	Address dcb.Address  // frames to it are routed; the source of its own frames

	Hop             dcb.Time // DefaultHop if 0
	StoreAndForward bool     // otherwise cut-through: a frame leaves before all of it has arrived

	Trust Trust
	DSCP  *[64]uint8                  // priorities of code points; nil: the upper three bits
	PCP   *[ethernet.Priorities]uint8 // nil: the same priority

	// Remark is the code points with which routed frames leave, by those with which they came; nil: the
	// same. Frames wait for the port on the new priority. See RaisePriorities.
	Remark *[64]uint8

	Buffer  BufferConfig
	Marking [ethernet.Priorities]Marking

	Telemetry bool // frames that have room for it are told of the links by which they leave

	Balance Balance
	Flowlet dcb.Time // pause of a flow after which it may take another path; DefaultFlowlet if 0

	Ageing    dcb.Time // after which an address is forgotten; DefaultAgeing if 0
	Addresses int      // that it can learn; DefaultAddresses if 0

	Seed uint64 // of random numbers, and of the hash that chooses a path
}

// A PortConfig is what a port of a switch is made with.
type PortConfig struct {
	Link     *dcb.PortConfig
	Headroom int // bytes of each lossless priority, see dcb.Headroom

	Priority uint8    // of frames that have none
	VLAN     uint16   // of untagged frames; 1 if 0
	Tagged   []uint16 // other VLANs, whose frames have a tag
	Trunk    bool     // all other VLANs

	Storm Storm
}

// A Storm limits the frames that a port may make the switch flood: to groups, and to addresses
// that the switch does not know. The zero value is no limit.
type Storm struct {
	Rate  dcb.Speed // bits per second
	Burst int       // bytes
}

// A Switch is a switch.
type Switch struct {
	config Config
	env    dcb.Env
	pool   *dcb.Pool
	ports  []Port
	buffer buffer
	table  table
	routes routes
	random uint64
}

// A Port is a port of a switch.
type Port struct {
	dcb.Port
	config *PortConfig
	member *[vlans / 64]uint64 // nil without tagged VLANs, or with all
	groups [ethernet.Priorities]group
	storm  dcb.Time // when the bucket of storm control would be empty again
	source source

	blocked bool // see Switch.Block

	dropped *[reasons]uint64 // nil before the first
}

const vlans = 4096

// Reasons for which a switch drops, from the first one on.
const (
	firstReason = reason.EthernetLength
	reasons     = reason.EthernetForeign - firstReason + 1
)

// Dropped returns the number of frames that the port has dropped for a reason: as they arrived, or
// from its queues.
func (p *Port) Dropped(r reason.Reason) uint64 {
	if i := r - firstReason; i < reasons && p.dropped != nil {
		return p.dropped[i]
	}
	return 0
}

// New returns a switch whose links are down.
func New(c Config, env dcb.Env, pool *dcb.Pool) *Switch {
	if c.Hop == 0 {
		c.Hop = DefaultHop
	}
	if c.Ageing == 0 {
		c.Ageing = DefaultAgeing
	}
	if c.Addresses == 0 {
		c.Addresses = DefaultAddresses
	}
	s := &Switch{config: c, env: env, pool: pool, ports: make([]Port, len(c.Ports)), random: dcb.Mix(c.Seed)}
	s.routes.init(&s.config)
	for i := 1; i < len(c.Ports); i++ {
		s.ports[i].init(&s.config.Ports[i], pool, c.Address)
	}
	s.buffer.init(&s.config)
	s.Reserve()
	return s
}

func (p *Port) init(c *PortConfig, pool *dcb.Pool, address dcb.Address) {
	p.config = c
	p.Port.Init(c.Link, pool, address)
	if c.VLAN == 0 {
		c.VLAN = 1
	}
	if len(c.Tagged) > 0 && !c.Trunk {
		p.member = new([vlans / 64]uint64)
		for _, v := range c.Tagged {
			p.member[v%vlans/64] |= 1 << (v % 64)
		}
	}
}

// carries reports whether the port is a member of a VLAN.
func (p *Port) carries(vlan uint16) bool {
	return vlan == p.config.VLAN || p.config.Trunk || p.member != nil && p.member[vlan%vlans/64]&(1<<(vlan%64)) != 0
}

// Port returns a port, for its counters and queues.
func (s *Switch) Port(number int) *Port { return &s.ports[number] }

// Ports returns the number of ports.
func (s *Switch) Ports() int { return len(s.ports) - 1 }

// SetLink brings the link of a port up or takes it down. What waits for a link that goes down is
// dropped.
func (s *Switch) SetLink(now dcb.Time, number int, up bool) {
	p := &s.ports[number]
	p.SetLink(now, up)
	s.routes.follow(s)
	if !up {
		s.table.forget(number)
		s.drain(now, number, 0xff, func(i uint8) reason.Detail { return dcb.LinkDown(number, i) })
	}
	s.schedule(number)
}

// Hold makes a port send nothing, or ends that: see dcb.Port.Hold.
func (s *Switch) Hold(now dcb.Time, number int, on bool) {
	s.ports[number].Hold(now, on)
	s.schedule(number)
}

// Run does what is due at a port.
func (s *Switch) Run(now dcb.Time, number int) {
	p := &s.ports[number]
	if storms := p.Watch(now); storms != 0 {
		s.drain(now, number, storms, func(i uint8) reason.Detail { return p.StormDetail(now, i) })
	}
	if f := p.Next(now); f != nil {
		if f.Op == 0 {
			s.leave(f)
			if f.Telemetry != nil && s.config.Telemetry {
				f.Telemetry.Stamp(now, &p.Port, f.Priority)
			}
		}
		s.env.Transmit(now, number, f)
	}
	s.schedule(number)
}

func (s *Switch) schedule(number int) { s.env.Schedule(number, s.ports[number].Deadline()) }

// drain drops what waits at a port.
func (s *Switch) drain(now dcb.Time, number int, priorities uint8, why func(priority uint8) reason.Detail) {
	for set := priorities; set != 0; set &= set - 1 {
		i := uint8(bits.TrailingZeros8(set))
		for f := s.ports[number].Drain(i); f != nil; f = s.ports[number].Drain(i) {
			s.drop(now, number, f, why(i))
		}
	}
}

// Receive takes a frame whose first byte arrives at a port now, and of a frame that pauses the last
// byte. Frame.Tail is when its last byte has arrived. The switch owns it.
func (s *Switch) Receive(now dcb.Time, number int, f *dcb.Frame) {
	p := &s.ports[number]
	f.In, f.Cells = int32(number), 0
	switch {
	case !p.Up():
		s.drop(now, number, f, dcb.LinkDown(number, f.Priority))
		return
	case f.Op != 0:
		p.Paused(now, f)
		s.pool.Put(f)
		s.schedule(number)
		return
	}
	f.Priority = s.priority(p, f)
	f.From = f.Priority
	p.Count(f.Priority).Received.Add(f)
	if int(f.Len) > p.MTU()+tagLen(f) {
		s.drop(now, number, f, reason.Detail{Reason: reason.EthernetLong, Expected: uint64(p.MTU()), Found: uint64(f.Len)})
		return
	}
	if f.Dst.Reserved() {
		s.local(now, number, f, reason.Detail{Reason: reason.EthernetReserved, Expected: 0xf, Found: uint64(f.Dst & 0xff)})
		return
	}
	vlan := f.VLAN
	if !f.Tagged || vlan == 0 { // 802.1Q 6.9.1: priority tags have no VLAN
		vlan = p.config.VLAN
	}
	if !p.carries(vlan) {
		s.drop(now, number, f, reason.Detail{Reason: reason.EthernetVLAN, Expected: uint64(p.config.VLAN), Found: uint64(vlan)})
		return
	}
	s.table.learn(now, &s.config, vlan, f.Src, number, &p.source)
	if f.Dst == s.config.Address {
		s.route(now, f)
		return
	}
	s.bridge(now, vlan, f)
}

// Send sends a frame of the switch itself by a port, on the priority Frame.Priority. The switch owns
// it.
func (s *Switch) Send(now dcb.Time, number int, f *dcb.Frame) {
	f.In, f.Cells, f.Tail = 0, 0, now
	s.push(now, number, s.ports[number].config.VLAN, f)
}

// local delivers a frame to the switch itself, or drops it.
func (s *Switch) local(now dcb.Time, number int, f *dcb.Frame, d reason.Detail) {
	if !s.env.Deliver(now, number, f) {
		s.drop(now, number, f, d)
	}
}

func tagLen(f *dcb.Frame) int {
	if f.Tagged {
		return ethernet.TagLen
	}
	return 0
}

// priority returns the priority of a frame that arrives at a port.
func (s *Switch) priority(p *Port, f *dcb.Frame) uint8 {
	switch {
	case s.config.Trust == TrustDSCP && (f.IP || f.DSCP != 0):
		if s.config.DSCP != nil {
			return s.config.DSCP[f.DSCP&0x3f] & 7
		}
		return f.DSCP >> 3 & 7
	case f.Tagged:
		if s.config.PCP != nil {
			return s.config.PCP[f.PCP&7] & 7
		}
		return f.PCP & 7
	}
	return p.config.Priority & 7
}

// push puts a frame that is in the buffer into the queue of a port.
func (s *Switch) push(now dcb.Time, out int, vlan uint16, f *dcb.Frame) {
	p := &s.ports[out]
	i := f.Priority
	if !p.Up() {
		s.drop(now, out, f, dcb.LinkDown(out, i))
		return
	}
	if p.Storms()&(1<<i) != 0 {
		s.drop(now, out, f, p.StormDetail(now, i))
		return
	}
	if d := s.buffer.limit(s, p, f); d.Reason != reason.None {
		s.drop(now, out, f, d)
		return
	}
	if m := &s.config.Marking[i]; m.Max != 0 {
		if d := s.mark(m, p, f); d.Reason != reason.None {
			s.drop(now, out, f, d)
			return
		}
	}
	if tagged := vlan != p.config.VLAN; tagged || f.Tagged {
		f.Tag(tagged, vlan, i)
	}
	if s.config.StoreAndForward {
		f.Due = f.Tail + s.config.Hop
	} else { // the last byte arrives before it is to leave, even by a faster link
		f.Due = max(now, f.Tail-dcb.Time(f.Len)*p.PerByte()) + s.config.Hop
	}
	if p.Push(now, f) {
		s.schedule(out)
	}
}

// drop ends a frame.
func (s *Switch) drop(now dcb.Time, number int, f *dcb.Frame, d reason.Detail) {
	p := &s.ports[number]
	if p.dropped == nil {
		p.dropped = new([reasons]uint64)
	}
	p.dropped[d.Reason-firstReason]++
	p.Count(f.Priority&7).Dropped++
	s.env.Dropped(now, number, f, d)
	s.leave(f)
	s.pool.Put(f)
}

// leave frees a frame's room in the buffer.
func (s *Switch) leave(f *dcb.Frame) {
	whole := s.pool.Leave(f)
	if whole == nil {
		return
	}
	if whole.Cells > 0 {
		s.free(whole)
	}
	if whole != f {
		s.pool.Put(whole)
	}
}
