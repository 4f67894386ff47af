package attack

import (
	"net/netip"
	"os"
	"slices"
	"strconv"
	"testing"

	"softrdma/internal/wire/ib"
	"softrdma/internal/wire/mad"
)

// DefaultPKey is the P_Key of every device: full membership of the default
// partition.
const DefaultPKey = 0xffff

// A Datagram is a UDP datagram with the addresses that it claims.
type Datagram struct {
	Src, Dst netip.AddrPort
	Data     []byte // behind the UDP header

	// Sealed says that Data ends with an ICRC, which senders adapt to what they
	// send with: a socket's port, a raw socket's identification.
	Sealed bool
}

// Packet makes the datagram of a packet with a right ICRC. It fills in the
// padding, and the P_Key where that is 0.
func Packet(src, dst netip.AddrPort, p ib.Packet) Datagram {
	p.Pad = ib.PadLen(len(p.Payload))
	if p.PKey == 0 {
		p.PKey = DefaultPKey
	}
	return Seal(src, dst, p.Append(nil))
}

// Seal makes the datagram of a copy of a packet, given from the BTH on without
// its ICRC. Behind a BTH it may hold anything.
func Seal(src, dst netip.AddrPort, packet []byte) Datagram {
	d := Datagram{Src: src, Dst: dst, Data: slices.Concat(packet, make([]byte, ib.ICRCLen)), Sealed: true}
	d.seal(src, 0)
	return d
}

// seal writes the ICRC of a datagram that leaves from src with an identification.
func (d *Datagram) seal(src netip.AddrPort, id uint16) {
	head := ib.NewPseudoHeader(src, d.Dst)
	ib.PutICRC(d.Data[len(d.Data)-ib.ICRCLen:], head.Sum(id, d.Data))
}

// A Body is a message of the communication manager, as package mad has them.
type Body interface {
	Put(d *[mad.Len]byte)
}

// Message makes the datagram of a communication manager's message to queue pair
// 1, whose sender claims to have the UDP port 4791.
func Message(src, dst netip.AddrPort, attribute mad.AttributeID, tid uint64, m Body) Datagram {
	var d [mad.Len]byte
	h := mad.NewHeader(attribute, tid)
	h.Put(&d)
	m.Put(&d)
	return Management(src, dst, d[:])
}

// Management makes the datagram of a management datagram to queue pair 1, of any
// length and content.
func Management(src, dst netip.AddrPort, b []byte) Datagram {
	return Packet(src, dst, ib.Packet{
		BTH:     ib.BTH{Opcode: ib.UDSendOnly, DestQPN: mad.GSIQPN},
		DETH:    ib.DETH{QKey: mad.GSIQKey, SrcQPN: mad.GSIQPN},
		Payload: b,
	})
}

// Request is a REQ that a listener on dst's port of a port space admits: of an RC
// queue pair at src, whose port is that of the requester in the port space. Its
// private data is an rsocket's, as package rdmanet wants it.
func Request(src, dst netip.AddrPort, space mad.PortSpace, id, qpn uint32, guid uint64) *mad.REQ {
	q := &mad.REQ{
		LocalID: id, QPN: qpn, GUID: guid, Service: mad.ServiceOf(space, dst.Port()),
		ResponderResources: 4, InitiatorDepth: 4, RemoteResponseTimeout: 20, LocalResponseTimeout: 20,
		RetryCount: 7, RNRRetryCount: 7, PKey: DefaultPKey, MTU: mad.MTUFrom(1024), MaxCMRetries: 15,
		Primary: mad.Path{
			LocalLID: mad.PermissiveLID, RemoteLID: mad.PermissiveLID,
			LocalGID: mad.GIDFrom(src.Addr()), RemoteGID: mad.GIDFrom(dst.Addr()), HopLimit: 64, AckTimeout: 18,
		},
	}
	h := mad.NewIPHeader(src, dst.Addr())
	h.Put(q.Private[:])
	// Version 1, 64 credits, a target table of 32 entries (rs_conn_data).
	socket := q.Private[mad.IPHeaderLen:]
	socket[0], socket[3], socket[23] = 1, 64, 32
	return q
}

// Count is how often an attack is tried that `go test` tries n times: n times the
// environment's ATTACK_FACTOR, or with -short a quarter of n.
func Count(n int) int {
	if testing.Short() {
		return max(n/4, 1)
	}
	if f, err := strconv.Atoi(os.Getenv("ATTACK_FACTOR")); err == nil && f > 0 {
		return n * f
	}
	return n
}
