//go:build linux

package uverbs

import (
	"encoding/binary"
	"net/netip"
	"syscall"
)

// The commands of rdma_user_cm.h.
const (
	ucmCreateID     = 0
	ucmDestroyID    = 1
	ucmBindIP       = 2
	ucmResolveIP    = 3
	ucmResolveRoute = 4
	ucmQueryRoute   = 5
	ucmConnect      = 6
	ucmListen       = 7
	ucmAccept       = 8
	ucmReject       = 9
	ucmDisconnect   = 10
	ucmInitQPAttr   = 11
	ucmGetEvent     = 12
	ucmSetOption    = 14
	ucmNotify       = 15
	ucmJoinIPMcast  = 16
	ucmLeaveMcast   = 17
	ucmMigrateID    = 18
	ucmQuery        = 19
	ucmBind         = 20
	ucmResolveAddr  = 21
	ucmJoinMcast    = 22
)

type ucmHeader struct {
	Command uint32
	In, Out uint16
}

type ucmCreate struct {
	UID, Response uint64
	PS            uint16
	QPType        uint8
	_             [5]uint8
}

// ucmByID begins the commands that have an answer and name an id.
type ucmByID struct {
	Response uint64
	ID, Arg  uint32
}

// sockaddrIn6 has room for an address of IPv4 as well.
type sockaddrIn6 [28]byte

// sockaddrStorage is __kernel_sockaddr_storage.
type sockaddrStorage [128]byte

type ucmBindIPCmd struct {
	Response uint64
	Addr     sockaddrIn6
	ID       uint32
}

type ucmBindCmd struct {
	ID          uint32
	AddrSize, _ uint16
	Addr        sockaddrStorage
}

type ucmResolveIPCmd struct {
	Src, Dst      sockaddrIn6
	ID, TimeoutMS uint32
}

type ucmResolveAddrCmd struct {
	ID, TimeoutMS    uint32
	SrcSize, DstSize uint16
	_                uint32
	Src, Dst         sockaddrStorage
}

type ucmPair struct{ ID, Arg uint32 }

// userPathRec is ib_user_path_rec.
type userPathRec struct {
	DGID, SGID             [16]byte
	DLID, SLID             uint16
	RawTraffic             uint32
	FlowLabel              [4]byte // big endian
	Reversible, MTU        uint32
	PKey                   [2]byte // big endian
	HopLimit, TrafficClass uint8
	NumbPath, SL           uint8
	MTUSelector            uint8
	RateSelector, Rate     uint8
	LifeTimeSelector       uint8
	LifeTime, Preference   uint8
}

// ucmRoute ends where the index of the device would be, which sysfs does not
// tell either: libraries find it by its GUID.
type ucmRoute struct {
	NodeGUID [8]byte
	Path     [2]userPathRec
	Src, Dst sockaddrIn6
	NumPaths uint32
	PortNum  uint8
	_        [3]uint8
}

type ucmAddr struct {
	NodeGUID         [8]byte
	PortNum, _       uint8
	PKey             [2]byte
	SrcSize, DstSize uint16
	Src, Dst         sockaddrStorage
}

type connParam struct {
	QPN, QKey                          uint32
	Private                            [256]byte
	PrivateLen, SRQ                    uint8
	ResponderResources, InitiatorDepth uint8
	FlowControl, RetryCount            uint8
	RNRRetryCount, Valid               uint8
}

type udParam struct {
	QPN, QKey  uint32
	AH         ahAttr
	Private    [256]byte
	PrivateLen uint8
	_          [7]uint8
}

type ucmConnectCmd struct {
	Conn  connParam
	ID, _ uint32
}

type ucmAcceptCmd struct {
	UID   uint64
	Conn  connParam
	ID, _ uint32
}

type ucmRejectCmd struct {
	ID                 uint32
	PrivateLen, Reason uint8
	_                  [2]uint8
	Private            [256]byte
}

type ucmEvent struct {
	UID               uint64
	ID, Event, Status uint32
	Param             [304]byte
	_                 uint32
	ECE               [2]uint32
}

type ucmOption struct {
	Value           uint64
	ID, Level, Name uint32
	Len             uint32
}

type ucmJoinIPCmd struct {
	Response, UID uint64
	Addr          sockaddrIn6
	ID            uint32
}

type ucmJoinCmd struct {
	Response, UID       uint64
	ID                  uint32
	AddrSize, JoinFlags uint16
	Addr                sockaddrStorage
}

// qpAttr is ib_uverbs_qp_attr.
type qpAttr struct {
	Mask, State, CurState, PathMTU, PathMig  uint32
	QKey, RQPSN, SQPSN, DestQPN, AccessFlags uint32
	AH, AltAH                                ahAttr
	Caps                                     [5]uint32
	PKeyIndex, AltPKeyIndex                  uint16
	EnSQDNotify, SQDraining                  uint8
	MaxRdAtomic, MaxDestRdAtomic             uint8
	MinRNRTimer, PortNum, Timeout, RetryCnt  uint8
	RNRRetry, AltPortNum, AltTimeout         uint8
	_                                        [5]uint8
}

// parseAddr reads a sockaddr; family 0 is no address.
func parseAddr(b []byte) (netip.AddrPort, error) {
	port := binary.BigEndian.Uint16(b[2:])
	switch binary.NativeEndian.Uint16(b) {
	case 0:
		return netip.AddrPort{}, nil
	case syscall.AF_INET:
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[4:8])), port), nil
	case syscall.AF_INET6:
		a := netip.AddrFrom16([16]byte(b[8:24]))
		if scope := binary.NativeEndian.Uint32(b[24:]); scope != 0 && a.IsLinkLocalUnicast() {
			a = a.WithZone(zoneName(scope))
		}
		return netip.AddrPortFrom(a.Unmap(), port), nil
	}
	return netip.AddrPort{}, syscall.EAFNOSUPPORT
}

// putAddr writes a sockaddr and gives its length.
func putAddr(b []byte, a netip.AddrPort) uint16 {
	if !a.IsValid() && !a.Addr().IsValid() {
		return 0
	}
	binary.BigEndian.PutUint16(b[2:], a.Port())
	if a.Addr().Is4() {
		binary.NativeEndian.PutUint16(b, syscall.AF_INET)
		ip := a.Addr().As4()
		copy(b[4:8], ip[:])
		return 16
	}
	binary.NativeEndian.PutUint16(b, syscall.AF_INET6)
	ip := a.Addr().As16()
	copy(b[8:24], ip[:])
	binary.NativeEndian.PutUint32(b[24:28], zoneIndex(a.Addr().Zone()))
	return 28
}
