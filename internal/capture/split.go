package capture

import (
	"encoding/binary"

	"softrdma/internal/wire/ib"
)

// With segmentation offload one captured frame may contain several packets
// concatenated after one UDP header, all of equal length except the last. Captures on
// loopback and virtual interfaces have such frames. Their headers do not identify
// them, but the ICRC does: it is wrong for the frame as a whole and right for a
// prefix of it.

// longest is the maximum length of a packet.
const longest = ib.MaxHeaderLen + maxMTU + ib.ICRCLen

// parts holds the packets of a frame that Next has not returned yet.
type parts struct {
	packet Packet // fields common to all
	rest   []byte
	size   int // of each packet except the last
	n      int // number of packets returned
}

// split checks whether a frame contains several packets. If so, it sets p to the
// first one and keeps the others.
func (c *Reader) split(p *Packet) {
	if p.ICRC != Bad || p.Truncated || p.V1 || p.Native { // frames of RoCE v1 or InfiniBand are never joined
		return
	}
	size := c.size
	if !c.decoder.partGood(p.Data, size) {
		size = 0
		for n := ib.BTHLen + ib.ICRCLen; n <= longest && size == 0; n += 4 {
			if c.decoder.partGood(p.Data, n) {
				size = n
			}
		}
		if size == 0 {
			return
		}
	}
	c.size = size
	c.parts = parts{packet: *p, rest: p.Data, size: size}
	c.nextPart(p)
}

// nextPart sets p to the next packet of a frame, and reports whether there is one.
func (c *Reader) nextPart(p *Packet) bool {
	t := &c.parts
	if len(t.rest) == 0 {
		return false
	}
	n := min(t.size, len(t.rest))
	*p = Packet{Number: t.packet.Number, Part: t.n + 1, Time: t.packet.Time, Src: t.packet.Src, Dst: t.packet.Dst,
		TOS: t.packet.TOS, TTL: t.packet.TTL, ID: t.packet.ID, Direction: t.packet.Direction,
		Data: t.rest[:n:n], Length: n}
	if c.decoder.ipv4() {
		p.ID += uint16(t.n) // segmentation increments the identification
	}
	if t.n == 0 {
		p.Comments = t.packet.Comments
	}
	t.rest = t.rest[n:]
	t.n++
	c.decoder.describe(n, p.ID)
	c.decoder.check(p)
	return true
}

// partGood reports whether the first n bytes of a frame are a packet.
func (d *decoder) partGood(data []byte, n int) bool {
	if n < ib.BTHLen+ib.ICRCLen || n >= len(data) {
		return false
	}
	saved := d.headers
	id := binary.BigEndian.Uint16(d.headers[4:])
	d.describe(n, id)
	sum, ok := ib.SumCaptured(d.headers[:d.n], data[:n])
	d.headers = saved
	return ok && sum == ib.ICRC(data[:n])
}

func (d *decoder) ipv4() bool { return d.headers[0]>>4 == 4 }

// describe changes the headers to those of a packet of n bytes.
func (d *decoder) describe(n int, id uint16) {
	if d.n == 0 {
		return
	}
	binary.BigEndian.PutUint16(d.headers[d.n-4:], uint16(udpLen+n))
	if d.ipv4() {
		binary.BigEndian.PutUint16(d.headers[2:], uint16(d.n+n))
		binary.BigEndian.PutUint16(d.headers[4:], id)
	} else {
		binary.BigEndian.PutUint16(d.headers[4:], uint16(udpLen+n))
	}
}
