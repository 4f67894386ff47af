package adapter

import (
	"net/netip"

	"softrdma/internal/link"
	"softrdma/internal/wire/ib"
)

// A source is what is remembered of where batches come from: the pseudo-header
// of their ICRC, and which IPv4 identification, which a UDP socket does not
// show, their packets will have. It is a guess only: where it fails the ICRC is
// solved for the identification (ib.Checker), with half of its strength.
type source struct {
	src, dst netip.AddrPort
	head     ib.PseudoHeader

	first uint16 // identification of the last batch's first packet
	next  uint16 // one more than that of the last packet

	// packets tells that identifications count packets; otherwise datagrams, as
	// those of a connected socket do, whose batches are datagrams.
	packets bool
}

// expected is the identification to expect of a batch's first packet. Those of
// an unconnected socket are 0.
func (s *source) expected() uint16 {
	switch {
	case s.first == 0:
		return 0
	case s.packets:
		return s.next
	}
	return s.first + 1
}

// begin notes the identification of a batch's first packet.
func (s *source) begin(id uint16) {
	if id != s.expected() {
		s.packets = id == s.next
	}
	s.first = id
}

// sources are the sources that packets came from lately, one for each hash.
type sources [128]*source

// find is the source of a batch.
func (t *sources) find(rx *link.Rx) *source {
	a := rx.Src.Addr().As16()
	at := &t[(uint(a[13])*31+uint(a[14])*17+uint(a[15])+uint(rx.Src.Port())*5)%uint(len(t))]
	if s := *at; s != nil && s.src == rx.Src && s.dst == rx.Dst {
		return s
	}
	if *at == nil {
		*at = new(source)
	}
	**at = source{src: rx.Src, dst: rx.Dst, head: ib.NewPseudoHeader(rx.Src, rx.Dst)}
	return *at
}
