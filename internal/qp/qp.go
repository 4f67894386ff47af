// Package qp describes queue pairs independently of any protocol: their types, states,
// attributes, and the table of legal transitions with the attributes that each requires and
// allows (IBTA 10.3.1 and 11.2.5.2). Numbers are those of libibverbs, so that they have the
// same meaning everywhere.
//
// It owns the table and the ranges of attributes. It changes no queue pair, and knows no
// packet.
package qp

import (
	"fmt"
	"net/netip"
	"strings"
	"time"

	"softrdma/internal/psn"
)

// A Type is a service type; the numbers are those of ibv_qp_type.
type Type uint8

// The service types.
const (
	RC      Type = 2
	UC      Type = 3
	UD      Type = 4
	XRCSend Type = 9  // XRC initiator, annex A14
	XRCRecv Type = 10 // XRC target
)

// String returns the usual name.
func (t Type) String() string {
	switch t {
	case RC:
		return "RC"
	case UC:
		return "UC"
	case UD:
		return "UD"
	case XRCSend:
		return "XRC_SEND"
	case XRCRecv:
		return "XRC_RECV"
	}
	return fmt.Sprintf("queue pair type %d", uint8(t))
}

// A State is a queue pair's state; the numbers are those of ibv_qp_state.
type State uint8

// The states (IBTA 10.3.1).
const (
	Reset State = iota
	Init
	RTR
	RTS
	SQD
	SQE
	Err
)

// String returns the specification's name.
func (s State) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return fmt.Sprintf("queue pair state %d", uint8(s))
}

var stateNames = [...]string{"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"}

// Access is a set of rights; the numbers are those of ibv_access_flags.
type Access uint32

// The rights. Local read is always granted.
const (
	LocalWrite      Access = 1 << 0
	RemoteWrite     Access = 1 << 1
	RemoteRead      Access = 1 << 2
	RemoteAtomic    Access = 1 << 3
	MWBind          Access = 1 << 4
	ZeroBased       Access = 1 << 5
	OnDemand        Access = 1 << 6
	HugeTLB         Access = 1 << 7
	FlushGlobal     Access = 1 << 8
	FlushPersistent Access = 1 << 9
)

var accessNames = [...]string{
	"LOCAL_WRITE", "REMOTE_WRITE", "REMOTE_READ", "REMOTE_ATOMIC", "MW_BIND", "ZERO_BASED",
	"ON_DEMAND", "HUGETLB", "FLUSH_GLOBAL", "FLUSH_PERSISTENT",
}

// String returns the names of ibv_access_flags without their prefix, joined by bars. Bits
// without a name are combined into one number.
func (a Access) String() string {
	if a == 0 {
		return "none"
	}
	var names []string
	for i, n := range accessNames {
		if a&(1<<i) != 0 {
			names = append(names, n)
		}
	}
	if rest := uint32(a) >> len(accessNames) << len(accessNames); rest != 0 {
		names = append(names, fmt.Sprintf("%#x", rest))
	}
	return strings.Join(names, "|")
}

// A Mask names attributes; the numbers are those of ibv_qp_attr_mask.
type Mask uint32

// The attributes.
const (
	MaskState            Mask = 1 << 0
	MaskCurState         Mask = 1 << 1
	MaskEnSQDAsyncNotify Mask = 1 << 2
	MaskAccess           Mask = 1 << 3
	MaskPKeyIndex        Mask = 1 << 4
	MaskPort             Mask = 1 << 5
	MaskQKey             Mask = 1 << 6
	MaskAV               Mask = 1 << 7
	MaskPathMTU          Mask = 1 << 8
	MaskTimeout          Mask = 1 << 9
	MaskRetryCnt         Mask = 1 << 10
	MaskRNRRetry         Mask = 1 << 11
	MaskRQPSN            Mask = 1 << 12
	MaskMaxRdAtomic      Mask = 1 << 13
	MaskAltPath          Mask = 1 << 14
	MaskMinRNRTimer      Mask = 1 << 15
	MaskSQPSN            Mask = 1 << 16
	MaskMaxDestRdAtomic  Mask = 1 << 17
	MaskPathMigState     Mask = 1 << 18
	MaskCap              Mask = 1 << 19
	MaskDestQPN          Mask = 1 << 20
)

// An Endpoint is the address of an adapter: its GID, as an IP address (an IPv4-mapped GID as
// the IPv4 address), and a number that distinguishes adapters with one GID. In RoCE v2 the
// number is the UDP port, 4791 by the standard. Frames without such a number ignore it.
type Endpoint = netip.AddrPort

// OnWire returns e in the form of packets: IPv4 not mapped into IPv6, and without a zone,
// which only this host's interfaces have.
func OnWire(e Endpoint) Endpoint {
	return netip.AddrPortFrom(e.Addr().Unmap().WithZone(""), e.Port())
}

// InZone returns e with the zone of local: an address without a zone is on the sender's link.
func InZone(e, local Endpoint) Endpoint {
	return netip.AddrPortFrom(e.Addr().WithZone(local.Addr().Zone()), e.Port())
}

// LocalGID stands for a GID in endpoints of an InfiniBand subnet that are reached by LID,
// without a GRH. It has the discard prefix (RFC 6666), which no port has.
var LocalGID = netip.AddrFrom16([16]byte{0: 1})

// LIDEndpoint returns the endpoint of a LID that is reached without a GRH. Endpoints that are
// reached with one have the GID, and as number the LID of the port or of the router to it.
func LIDEndpoint(lid uint16) Endpoint { return netip.AddrPortFrom(LocalGID, lid) }

// RoCEGIDs is the number of entries in the GID table of a RoCE device. All of them are its one
// address, because programs ask for index 1 or 3, which on adapters are often the first entry
// of RoCE v2 and that of an IPv4 address.
const RoCEGIDs = 4

// A Path is the destination of packets: what an address handle resolves to.
type Path struct {
	Dst          Endpoint // in the form of packets, see OnWire
	SGIDIndex    uint8
	FlowLabel    uint32 // 20 bits; if 0 the QPNs choose the flow
	TrafficClass uint8  // its upper six bits are the DSCP
	HopLimit     uint8  // 0 means 64
	ServiceLevel uint8  // 0 to 15; not transmitted by RoCE v2 over IP
	PathBits     uint8  // InfiniBand: the low bits of the source LID, up to the port's LMC
}

// Global reports whether packets have a GRH on InfiniBand links. RoCE packets always have one.
func (p *Path) Global() bool { return p.Dst.Addr() != LocalGID }

// LID returns the destination on InfiniBand links.
func (p *Path) LID() uint16 { return p.Dst.Port() }

// A LinkRoute holds the fields of InfiniBand link headers of a received packet.
type LinkRoute struct {
	Present  bool  // false if the packet came over another network
	Global   bool  // the packet has a GRH
	SL       uint8 // service level
	PathBits uint8 // of the destination LID, up to the port's LMC
}

// Attr are the attributes of a queue pair.
type Attr struct {
	State           State
	CurState        State // expected current state, checked when Modify names it
	PathMTU         int   // bytes: 256, 512, 1024, 2048 or 4096
	QKey            uint32
	RQPSN           psn.PSN
	SQPSN           psn.PSN
	DestQPN         uint32
	Access          Access
	Path            Path
	PKeyIndex       uint16
	Port            uint8
	MaxRdAtomic     uint8
	MaxDestRdAtomic uint8
	MinRNRTimer     uint8 // field of IBTA 9.7.5.2.8, table 45
	Timeout         uint8 // 4.096 µs × 2^Timeout, 0 means forever
	RetryCnt        uint8 // 0..7
	RNRRetry        uint8 // 0..7, 7 means forever
	EnSQDNotify     bool
	SQDraining      bool
}

// AckTimeout returns the local acknowledge timeout, or 0 if there is none (IBTA 9.7.6.1.3,
// C9-140).
func (a *Attr) AckTimeout() time.Duration {
	if a.Timeout == 0 {
		return 0
	}
	return 4096 * time.Nanosecond << (a.Timeout & 31)
}
