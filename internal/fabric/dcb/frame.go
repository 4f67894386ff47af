package dcb

import (
	"encoding/binary"
	"math/bits"
	"net/netip"

	"softrdma/internal/reason"
	"softrdma/internal/wire/ethernet"
	"softrdma/internal/wire/ib/own"
)

// A Frame is a frame on a link or in a node. Its fields are what switches look at. A simulation
// that does not care about the content of frames sets the fields and leaves Data empty.
//
// A frame belongs to the node in which it is, or to the link. What receives one passes it on or
// returns it to the pool.
type Frame struct {
	// The next fields fill two cache lines: each switch uses almost all of them.

	Len    int32 // in bytes, with the check sequence
	Op     uint16
	IP     bool  // IPv4 or IPv6, with To
	Hops   uint8 // hop limit of IP
	Tagged bool
	PCP    uint8 // priority code point of the tag
	VLAN   uint16
	DSCP   uint8 // of IP, or of the GRH of RoCE v1
	ECN    uint8 // the same

	// In the node.
	Priority uint8
	From     uint8 // priority on which it arrived, to which its room in the buffer counts
	At       Time  // when the first byte arrives
	Tail     Time  // when the last byte has arrived
	Due      Time  // when it may leave
	In       int32 // port of arrival, from 1 on; 0 for frames of the node itself
	Cells    int32 // that it takes of the buffer

	next  *Frame
	whole *Frame // of which this one is a copy

	Dst, Src Address
	To       IP
	Flow     uint64 // hash of addresses and ports, see FlowOf

	// Telemetry is what switches say of their links, if they do. It goes with the frame, and with
	// no copy of it.
	Telemetry *Telemetry

	// Cookie is the user's: switches copy it and look at nothing in it.
	Cookie uint64

	// Content is the user's, too. It stays with the frame when it is returned to the pool and used
	// again, as the memory of Data does. No copy of the frame has it.
	Content any

	Data []byte // from the destination address on, without the check sequence; may be empty

	copies int32 // of this frame that are still there
	Enable uint8 // of a frame that pauses: see ethernet.Control
	Quanta [ethernet.Priorities]uint16
}

// A Telemetry is the links by which a frame has left switches, in their order, as HPCC has it
// (SIGCOMM 2019). Later ones than fit are left out.
type Telemetry struct {
	Hops  [own.MaxHops]own.Hop
	Count int
}

// Stamp adds the link by which the frame leaves now, of a port with a queue.
func (t *Telemetry) Stamp(now Time, p *Port, priority uint8) {
	if t.Count == len(t.Hops) {
		return
	}
	h := own.Hop{Time: uint64(now / Nanosecond), Queue: uint32(p.Queue(priority).Bytes), Rate: uint32(p.config.Speed / 1e6)}
	for _, l := range p.lanes {
		if l != nil {
			h.Bytes += l.Sent.Bytes
		}
	}
	t.Hops[t.Count] = h
	t.Count++
}

// The values of ECN (RFC 3168 5).
const (
	NotECT = 0
	ECT1   = 1
	ECT0   = 2
	CE     = 3
)

// An Address is a MAC address as a number: 02:00:00:00:00:01 is 0x020000000001.
type Address uint64

// AddressOf returns the number of a MAC address.
func AddressOf(m ethernet.MAC) Address {
	return Address(binary.BigEndian.Uint16(m[:]))<<32 | Address(binary.BigEndian.Uint32(m[2:]))
}

// MAC returns the address as frames have it.
func (a Address) MAC() (m ethernet.MAC) {
	binary.BigEndian.PutUint16(m[:], uint16(a>>32))
	binary.BigEndian.PutUint32(m[2:], uint32(a))
	return m
}

// Broadcast is the address of all hosts.
const Broadcast Address = 0xffffffffffff

// Group reports whether the address is a group's.
func (a Address) Group() bool { return a>>40&1 != 0 }

// reserved are the first 44 bits of the addresses that no bridge forwards (802.1Q table 8-1).
const reserved Address = 0x0180c2000000

// Reserved reports whether no bridge forwards frames to the address.
func (a Address) Reserved() bool { return a&^0xf == reserved }

// An IP is an IPv6 address, or an IPv4 address mapped to one.
type IP struct{ Hi, Lo uint64 }

// mapped is the upper part of an IPv4 address in Lo.
const mapped = 0xffff << 32

// IPFrom returns the number of an address.
func IPFrom(b [16]byte) IP {
	return IP{binary.BigEndian.Uint64(b[:]), binary.BigEndian.Uint64(b[8:])}
}

// Addr returns the address.
func (a IP) Addr() netip.Addr {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:], a.Hi)
	binary.BigEndian.PutUint64(b[8:], a.Lo)
	return netip.AddrFrom16(b).Unmap()
}

// IPv4 returns the mapped address of four bytes.
func IPv4(a uint32) IP { return IP{0, mapped | uint64(a)} }

// Mix is a hash of a number: the finalizer of splitmix64.
func Mix(h uint64) uint64 {
	h ^= h >> 30
	h *= 0xbf58476d1ce4e5b9
	h ^= h >> 27
	h *= 0x94d049bb133111eb
	return h ^ h>>31
}

// FlowOf returns the hash of a flow. Ports are those of TCP and UDP, 0 without them. RoCE v2
// distinguishes its flows by the source port.
func FlowOf(src, dst IP, protocol uint8, srcPort, dstPort uint16) uint64 {
	h := Mix(src.Hi ^ bits.RotateLeft64(src.Lo, 17))
	h = Mix(h ^ dst.Hi ^ bits.RotateLeft64(dst.Lo, 31))
	return Mix(h ^ uint64(srcPort)<<32 ^ uint64(dstPort)<<8 ^ uint64(protocol))
}

// Parse sets the fields from Data, which is a frame without its check sequence. The detail names
// what is wrong with a frame that ends too early; its reason is None if nothing is.
func (f *Frame) Parse() reason.Detail {
	b := f.Data
	var h ethernet.Header
	n := h.Parse(b)
	if n == 0 {
		return short(ethernet.HeaderLen, len(b))
	}
	f.Len = int32(max(len(b), ethernet.MinLen) + ethernet.CheckLen)
	f.Dst, f.Src = AddressOf(h.Dst), AddressOf(h.Src)
	f.Tagged, f.VLAN, f.PCP = h.Tagged, h.Tag.VLAN(), h.Tag.Priority()
	f.DSCP, f.ECN, f.Hops, f.IP, f.Op, f.Enable, f.To = 0, 0, 0, false, 0, 0, IP{}
	f.Flow = FlowOf(IP{0, uint64(f.Src)}, IP{0, uint64(f.Dst)}, 0, 0, 0)
	switch rest := b[n:]; h.Type {
	case ethernet.TypeControl:
		var c ethernet.Control
		if c.Parse(b) {
			f.Op, f.Enable, f.Quanta = c.Op, c.Enable, c.Quanta
		}
	case ethernet.TypeIPv4:
		return f.parseIPv4(rest)
	case ethernet.TypeIPv6:
		return f.parseIPv6(rest)
	case ethernet.TypeRoCE: // a GRH has the fields of an IPv6 header (IBTA 8.3)
		if len(rest) >= ipv6Len {
			class := uint8(binary.BigEndian.Uint16(rest) >> 4)
			f.DSCP, f.ECN = class>>2, class&3
		}
	}
	return reason.Detail{}
}

func short(expected, found int) reason.Detail {
	return reason.Detail{Reason: reason.EthernetLength, Expected: uint64(expected), Found: uint64(found)}
}

const (
	ipv4Len = 20
	ipv6Len = 40

	protocolTCP = 6
	protocolUDP = 17
)

func (f *Frame) parseIPv4(b []byte) reason.Detail {
	if len(b) < ipv4Len {
		return short(ipv4Len, len(b))
	}
	f.IP, f.Hops, f.DSCP, f.ECN = true, b[8], b[1]>>2, b[1]&3
	src := IPv4(binary.BigEndian.Uint32(b[12:]))
	f.To = IPv4(binary.BigEndian.Uint32(b[16:]))
	ports := b[min(len(b), max(ipv4Len, 4*int(b[0]&0xf))):]
	if binary.BigEndian.Uint16(b[6:])&0x3fff != 0 { // fragments have no ports, or not all of them have
		ports = nil
	}
	f.flow(src, b[9], ports)
	return reason.Detail{}
}

func (f *Frame) parseIPv6(b []byte) reason.Detail {
	if len(b) < ipv6Len {
		return short(ipv6Len, len(b))
	}
	class := uint8(binary.BigEndian.Uint16(b) >> 4)
	f.IP, f.Hops, f.DSCP, f.ECN = true, b[7], class>>2, class&3
	f.To = IPFrom([16]byte(b[24:]))
	f.flow(IPFrom([16]byte(b[8:])), b[6], b[ipv6Len:])
	return reason.Detail{}
}

func (f *Frame) flow(src IP, protocol uint8, ports []byte) {
	var from, to uint16
	if (protocol == protocolTCP || protocol == protocolUDP) && len(ports) >= 4 {
		from, to = binary.BigEndian.Uint16(ports), binary.BigEndian.Uint16(ports[2:])
	}
	f.Flow = FlowOf(src, f.To, protocol, from, to)
}
