package machine

import "softrdma/internal/wire/ib"

// A train is several packets of one message, one behind the other, that leave a
// machine as one: with the PSN of the first, the opcode and the headers that a
// packet of their length would have, and the payload of all. All but the last
// packet of a message have the path MTU. Between lanes of a process a train is handed
// over as a whole. Elsewhere, on the network above all, it is divided into the packets
// that would have left without it.

// PSNs returns how many packet sequence numbers it takes.
func (in *In) PSNs() int { return max(in.Train, 1) }

// PSNs returns how many packet sequence numbers it takes.
func (o *Out) PSNs() int { return max(o.Train, 1) }

// Whole reports whether a train has the payload of as many packets as it says. A peer on the
// same host may say anything, and one may have another path MTU.
func (in *In) Whole(mtu int) bool {
	n, full := len(in.Payload), in.PSNs()*mtu
	if in.Opcode.Info().Last {
		return n > full-mtu && n <= full
	}
	return n == full
}

// Part makes packet i of a train, which is Whole and whose packets have mtu bytes.
func (in *In) Part(i, mtu int) In {
	p := *in
	p.Train = 0
	part(&p.Packet, i, in.PSNs())
	p.Payload = in.Payload[i*mtu : min((i+1)*mtu, len(in.Payload))]
	return p
}

// Part makes p packet i of a train, whose packets have mtu bytes, reusing
// p.Pieces.
func (o *Out) Part(i, mtu int, p *Out) {
	pieces := p.Pieces[:0]
	*p = *o
	p.Train = 0
	part(&p.Packet, i, o.PSNs())
	skip := i * mtu
	left := min(mtu, o.Len-skip)
	p.Len = left
	for _, b := range o.Pieces {
		if skip >= len(b) {
			skip -= len(b)
			continue
		}
		if b = b[skip:]; len(b) > left {
			b = b[:left]
		}
		if skip, left = 0, left-len(b); len(b) > 0 {
			pieces = append(pieces, b)
		}
	}
	p.Pieces = pieces
}

// part makes p, the headers of a train of n packets, those of its packet i.
func part(p *ib.Packet, i, n int) {
	last := i == n-1
	p.Opcode = p.Opcode.Segment(i == 0, last)
	p.PSN = p.PSN.Add(i)
	p.AckReq = p.AckReq && last
	p.Solicited = p.Solicited && last
}
