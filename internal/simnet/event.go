package simnet

import (
	"hash/crc32"
	"net/netip"
	"time"
)

// A packet is one datagram on its way. The network owns it until a link's
// Receive has copied it.
type packet struct {
	data      []byte
	src, dst  netip.AddrPort
	tos, hops uint8
}

// An event is a packet's arrival: at a link, or in the middle of the network.
type event struct {
	at     time.Duration
	seq    uint64 // order of events of one moment
	link   *Link
	packet *packet
}

func (e *event) before(f *event) bool {
	return e.at < f.at || e.at == f.at && e.seq < f.seq
}

// eventHeap holds the events to come, earliest first. It is written out
// because container/heap would box every event.
type eventHeap []event

func (h *eventHeap) next() time.Duration {
	if len(*h) == 0 {
		return never
	}
	return (*h)[0].at
}

func (h *eventHeap) push(e event) {
	*h = append(*h, e)
	s := *h
	for i := len(s) - 1; i > 0; {
		up := (i - 1) / 2
		if !s[i].before(&s[up]) {
			return
		}
		s[i], s[up] = s[up], s[i]
		i = up
	}
}

func (h *eventHeap) pop() event {
	s := *h
	first := s[0]
	last := len(s) - 1
	s[0] = s[last]
	s[last] = event{}
	s = s[:last]
	*h = s
	for i := 0; ; {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < last; child++ {
			if s[child].before(&s[least]) {
				least = child
			}
		}
		if least == i {
			return first
		}
		s[i], s[least] = s[least], s[i]
		i = least
	}
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
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// note takes what happened to a packet into the hash.
func (n *Network) note(what note, link int, p *packet) {
	h := n.hash
	mix := func(v uint64) {
		// The finalizer of splitmix64: every bit of what came before counts.
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
