package live

import (
	"encoding/binary"

	"softrdma/internal/fabric/dcb"
	"softrdma/internal/fabric/hostport"
	"softrdma/internal/topology"
	"softrdma/internal/wire/ethernet"
	"softrdma/internal/wire/ib"
)

// Fields and flags of TCP (RFC 9293 3.1).
const (
	tcpLen = 20

	tcpFin = 1 << 0
	tcpSyn = 1 << 1
	tcpRst = 1 << 2
	tcpAck = 1 << 4
)

// reset answers a segment that has come to a host without a program for TCP, as the system of a host does
// that has no listener (RFC 9293 3.10.7.1). n.in has the segment.
func (n *ethernetNetwork) reset(now dcb.Time, at topology.End) {
	x := &n.in
	if x.kind != hostport.Segments {
		return
	}
	headers := ipv4Len
	if x.to.Addr().Is6() {
		headers = ipv6Len
	}
	in := x.payload[headers:]
	if len(in) < tcpLen || in[13]&tcpRst != 0 {
		return
	}
	src, dst := x.head.Dst, x.head.Src
	f := n.lan.Pool().Frame()
	f.Data = append(f.Data[:0], make([]byte, ethernet.HeaderLen+headers+tcpLen)...)
	a := attachment{at: at, service: service{hostport.Segments, src.Addr()}}
	b := f.Data[n.link(&a, f, dst.Addr()):]
	ib.PutIP(b, src.Addr(), dst.Addr(), x.head.TOS&^3, defaultHops, 0, tcpLen)
	setProtocol(b, protocolTCP)
	out := b[headers:]
	binary.BigEndian.PutUint16(out, src.Port())
	binary.BigEndian.PutUint16(out[2:], dst.Port())
	out[12], out[13] = tcpLen/4<<4, tcpRst
	if in[13]&tcpAck != 0 {
		copy(out[4:8], in[8:12])
	} else {
		length := uint32(max(len(in)-int(in[12]>>4)*4, 0))
		length += uint32(in[13]&tcpSyn>>1) + uint32(in[13]&tcpFin)
		binary.BigEndian.PutUint32(out[8:], binary.BigEndian.Uint32(in[4:])+length)
		out[13] |= tcpAck
	}
	binary.BigEndian.PutUint16(out[16:], ib.Checksum(protocolTCP, src.Addr(), dst.Addr(), out))
	f.Parse()
	if f.Priority = f.DSCP >> 3; !n.lan.Send(now, at.Node, f) {
		n.lan.Pool().Put(f)
	}
}
