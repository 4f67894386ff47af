package simnet

import (
	"hash/crc32"
	"net/netip"
)

// A packet is one datagram in flight. The network owns it until a link's Receive has copied
// it.
type packet struct {
	data      []byte
	front     []byte // Ethernet header and GRH of a frame, see EthernetLink
	src, dst  netip.AddrPort
	tos, hops uint8
	fragments bool    // may be fragmented
	carried   bool    // it has been in the middle of the network, see Carry
	segment   segment // of a link that carries TCP
}

// A place is where a packet arrives: at a link, in the translator of the link that has sent it, or, if it is zero, in the
// middle of the network.
type place struct {
	link *Link
	nat  *Link
}

// An event is the arrival of a packet, or a call.
type event struct {
	place
	packet *packet
	call   func()
}

// A note is what happened to a packet, for the hash.
type note uint64

const (
	noteSent note = iota + 1
	noteLost
	noteDuplicated
	noteReordered
	noteCorrupted
	noteMarked
	noteQueueFull
	noteTooLong
	noteBufferFull
	noteUnreachable
	noteReceived
	noteDropped
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// note mixes what happened to a packet into the hash.
func (n *Network) note(what note, link int, p *packet) {
	h := n.hash
	mix := func(v uint64) {
		// The finalizer of splitmix64 mixes in every bit of the history.
		h ^= v
		h *= 0x9e3779b97f4a7c15
		h ^= h >> 29
		h *= 0xbf58476d1ce4e5b9
		h ^= h >> 32
	}
	mix(uint64(n.now))
	mix(uint64(what)<<32 | uint64(uint32(link)))
	mix(uint64(p.src.Port())<<48 | uint64(p.tos)<<40 | uint64(len(p.data)))
	mix(uint64(crc32.Checksum(p.data, castagnoli)))
	n.hash = h
}
