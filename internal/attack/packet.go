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

// A Datagram is a UDP datagram with possibly forged addresses.
type Datagram struct {
	Src, Dst netip.AddrPort
	Data     []byte // after the UDP header

	// Sealed means that Data ends with an ICRC. The sender adapts it to its port or
	// IPv4 identification.
	Sealed bool
}

// Packet returns the datagram of a packet with a valid ICRC. It fills in the padding,
// and the P_Key if that is 0.
func Packet(src, dst netip.AddrPort, p ib.Packet) Datagram {
	p.Pad = ib.PadLen(len(p.Payload))
	if p.PKey == 0 {
		p.PKey = DefaultPKey
	}
	return Seal(src, dst, p.Append(nil))
}

// Seal returns the datagram of a packet, which is copied. The packet begins with a BTH,
// has any contents after it and no ICRC.
func Seal(src, dst netip.AddrPort, packet []byte) Datagram {
	d := Datagram{Src: src, Dst: dst, Data: slices.Concat(packet, make([]byte, ib.ICRCLen)), Sealed: true}
	d.seal(src, 0)
	return d
}

// seal writes the ICRC of a datagram that is sent from src with an IPv4 identification.
func (d *Datagram) seal(src netip.AddrPort, id uint16) {
	head := ib.NewPseudoHeader(src, d.Dst)
	ib.PutICRC(d.Data[len(d.Data)-ib.ICRCLen:], head.Sum(id, d.Data))
}

// A Body is a communication manager message of package mad.
type Body interface {
	Put(d *[mad.Len]byte)
}

// Message returns the datagram of a communication manager message to queue pair 1.
func Message(src, dst netip.AddrPort, attribute mad.AttributeID, tid uint64, m Body) Datagram {
	var d [mad.Len]byte
	h := mad.NewHeader(attribute, tid)
	h.Put(&d)
	m.Put(&d)
	return Management(src, dst, d[:])
}

// Management returns the datagram of a management datagram to queue pair 1, with any
// length and contents.
func Management(src, dst netip.AddrPort, b []byte) Datagram {
	return Packet(src, dst, ib.Packet{
		BTH:     ib.BTH{Opcode: ib.UDSendOnly, DestQPN: mad.GSIQPN},
		DETH:    ib.DETH{QKey: mad.GSIQKey, SrcQPN: mad.GSIQPN},
		Payload: b,
	})
}

// Request returns a REQ that a listener on dst's port of a port space accepts, for an RC
// queue pair at src. Its private data is an rsocket's, as package rdmanet requires.
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

// Count returns the size of an attack: n times the environment's ATTACK_FACTOR, or with
// -short a quarter of n.
func Count(n int) int {
	if testing.Short() {
		return max(n/4, 1)
	}
	if f, err := strconv.Atoi(os.Getenv("ATTACK_FACTOR")); err == nil && f > 0 {
		return n * f
	}
	return n
}
