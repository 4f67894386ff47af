package rig

import (
	"slices"

	"softrdma/internal/link/hostmem"
	"softrdma/internal/memory"
	"softrdma/internal/qp"
)

// A Bond is the memory path between two devices, as between processes of one host. Its rings
// are ordinary memory.
type Bond struct {
	hosts    [2]*Host
	channels [2]*hostmem.Channel
	referred int
}

// A BondConfig configures how payloads travel through a Bond.
type BondConfig struct {
	Offer bool // segments may be offered, see Segment

	// Fails, if not nil, reports whether the next use of a segment fails, as if it had just
	// been withdrawn.
	Fails func() bool
}

// Join connects two devices through memory.
func Join(a, b *Host, c BondConfig) (*Bond, error) {
	x := &Bond{hosts: [2]*Host{a, b}}
	var out, in [2]*hostmem.Area
	for i, h := range x.hosts {
		from, to := 1+len(h.More), 1+len(x.hosts[1-i].More)
		mem := make([]byte, hostmem.AreaSize(from, to))
		out[i] = hostmem.NewArea(mem, from, to)
		var err error
		if in[1-i], err = hostmem.OpenArea(mem, from, to); err != nil {
			return nil, err
		}
	}
	for i := range x.hosts {
		peer := x.hosts[1-i]
		x.channels[i] = &hostmem.Channel{
			Peer: qp.OnWire(peer.Link.Local()), Out: out[i], In: in[i], Lanes: 1 + len(peer.More),
			Far: &far{bond: x, peer: peer, config: c},
		}
	}
	for i, h := range x.hosts {
		h.Dev.AttachHost(x.channels[i])
	}
	return x, nil
}

// Part ends the path. Packets in its rings are lost.
func (x *Bond) Part() {
	for i, h := range x.hosts {
		h.Dev.DetachHost(x.channels[i])
	}
	x.hosts[0].Net.Poke()
}

// Referred returns how many messages referenced segments.
func (x *Bond) Referred() int { return x.referred }

// Segment makes mem a segment for PD.RegisterSegment. Devices joined to this one may map it
// while it is registered.
func Segment(mem []byte) *memory.Segment { return memory.NewSegment(mem, len(mem), -1) }

// A far is the peer of one end of a Bond.
type far struct {
	bond    *Bond
	peer    *Host
	config  BondConfig
	offered []*memory.Segment // of the device at this end, which the peer has mapped
}

func (f *far) Ring(int) { f.peer.Net.Poke() }

// Segment searches the segments that the peer's end has offered.
func (f *far) Segment(id uint32) []byte {
	if f.config.Fails != nil && f.config.Fails() {
		return nil
	}
	i := 0
	if f.bond.channels[0].Far == hostmem.Far(f) {
		i = 1
	}
	for _, s := range f.bond.channels[i].Far.(*far).offered {
		if s.ID == id {
			f.bond.referred++
			return s.Mem
		}
	}
	return nil
}

func (f *far) Offer(s *memory.Segment) {
	if f.config.Offer && !f.Offered(s.ID) {
		f.offered = append(f.offered, s)
	}
}

func (f *far) Offered(id uint32) bool {
	return slices.ContainsFunc(f.offered, func(s *memory.Segment) bool { return s.ID == id })
}

func (f *far) Withdraw(id uint32) {
	f.offered = slices.DeleteFunc(f.offered, func(s *memory.Segment) bool { return s.ID == id })
}

func (f *far) Close() { f.bond.Part() }
