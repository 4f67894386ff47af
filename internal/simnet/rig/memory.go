package rig

import (
	"errors"
	"slices"

	"softrdma/internal/link/hostmem"
	"softrdma/internal/memory"
	"softrdma/internal/qp"
)

// A Bond is the memory path between two devices, as it is between processes of one host.
// Its rings are ordinary memory.
type Bond struct {
	hosts    [2]*Host
	channels [2]*hostmem.Channel
	pulled   int
}

// A BondConfig says how payloads may travel through a Bond.
type BondConfig struct {
	Pull  bool // the receiving side may read memory that Host.Expose was called for
	Offer bool // segments may be offered

	// Fails, if not nil, reports whether the next read of exposed memory fails. What
	// StopPulling says is lost then: the ring alone tells the sender.
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
		reads := func() bool { return c.Pull && !x.channels[1-i].Far.(*far).pullsOff }
		x.channels[i] = &hostmem.Channel{
			Peer: qp.OnWire(peer.Link.Local()), Out: out[i], In: in[i], Lanes: 1 + len(peer.More),
			Far: &far{bond: x, peer: peer, config: c}, PeerReads: reads,
		}
	}
	for i, h := range x.hosts {
		h.Dev.AttachHost(x.channels[i])
	}
	return x, nil
}

// Part ends the path. Packets that are in its rings are lost.
func (x *Bond) Part() {
	for i, h := range x.hosts {
		h.Dev.DetachHost(x.channels[i])
	}
	x.hosts[0].Net.Poke()
}

// Pulled returns how many bytes were read out of exposed memory.
func (x *Bond) Pulled() int { return x.pulled }

// Expose lets devices that are joined to this one read mem.
func (h *Host) Expose(mem []byte) { h.exposed = append(h.exposed, mem) }

// A far is the peer of one end of a Bond.
type far struct {
	bond     *Bond
	peer     *Host
	config   BondConfig
	offered  []*memory.Segment // of the device at this end, which the peer has mapped
	pullsOff bool              // the peer was told that its memory cannot be read
}

func (f *far) Ring(int) { f.peer.Net.Poke() }

var errMemory = errors.New("memory of the peer that is not exposed")

func (f *far) Pull(dst []byte, addr uint64) error {
	if f.config.Fails != nil && f.config.Fails() {
		return errMemory
	}
	for _, m := range f.peer.exposed {
		if off := addr - memory.Addr(m); off < uint64(len(m)) && len(dst) <= len(m)-int(off) {
			copy(dst, m[off:])
			f.bond.pulled += len(dst)
			return nil
		}
	}
	return errMemory
}

func (f *far) StopPulling() { f.pullsOff = f.config.Fails == nil }

// Segment looks among those that the peer's end has offered.
func (f *far) Segment(id uint32) []byte {
	i := 0
	if f.bond.channels[0].Far == hostmem.Far(f) {
		i = 1
	}
	for _, s := range f.bond.channels[i].Far.(*far).offered {
		if s.ID == id {
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
