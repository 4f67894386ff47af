package uapi

// The commands of rdma_user_cm.h.
const (
	CMCreateID     = 0
	CMDestroyID    = 1
	CMBindIP       = 2
	CMResolveIP    = 3
	CMResolveRoute = 4
	CMQueryRoute   = 5
	CMConnect      = 6
	CMListen       = 7
	CMAccept       = 8
	CMReject       = 9
	CMDisconnect   = 10
	CMInitQPAttr   = 11
	CMGetEvent     = 12
	CMSetOption    = 14
	CMNotify       = 15
	CMJoinIPMcast  = 16
	CMLeaveMcast   = 17
	CMMigrateID    = 18
	CMQuery        = 19
	CMBind         = 20
	CMResolveAddr  = 21
	CMJoinMcast    = 22
	CMWriteEvent   = 24
)

type CMHeader struct {
	Command uint32
	In, Out uint16
}

type CMCreate struct {
	UID, Response uint64
	PS            uint16
	QPType        uint8
	_             [5]uint8
}

// CMByID begins the commands that have an answer and name an id.
type CMByID struct {
	Response uint64
	ID, Arg  uint32
}

// SockaddrIn6 has room for an address of IPv4 as well.
type SockaddrIn6 [28]byte

// SockaddrStorage is __kernel_sockaddr_storage.
type SockaddrStorage [128]byte

type CMBindIPCmd struct {
	Response uint64
	Addr     SockaddrIn6
	ID       uint32
}

type CMBindCmd struct {
	ID          uint32
	AddrSize, _ uint16
	Addr        SockaddrStorage
}

type CMResolveIPCmd struct {
	Src, Dst      SockaddrIn6
	ID, TimeoutMS uint32
}

type CMResolveAddrCmd struct {
	ID, TimeoutMS    uint32
	SrcSize, DstSize uint16
	_                uint32
	Src, Dst         SockaddrStorage
}

type CMPair struct{ ID, Arg uint32 }

// UserPathRec is ib_user_path_rec.
type UserPathRec struct {
	DGID, SGID             [16]byte
	DLID, SLID             [2]byte // big endian
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

// CMRoute ends where the index of the device would be, which sysfs does not
// tell either: libraries find it by its GUID.
type CMRoute struct {
	NodeGUID [8]byte
	Path     [2]UserPathRec
	Src, Dst SockaddrIn6
	NumPaths uint32
	PortNum  uint8
	_        [3]uint8
}

type CMAddr struct {
	NodeGUID         [8]byte
	PortNum, _       uint8
	PKey             [2]byte
	SrcSize, DstSize uint16
	Src, Dst         SockaddrStorage
}

type ConnParam struct {
	QPN, QKey                          uint32
	Private                            [256]byte
	PrivateLen, SRQ                    uint8
	ResponderResources, InitiatorDepth uint8
	FlowControl, RetryCount            uint8
	RNRRetryCount, Valid               uint8
}

type UDParam struct {
	QPN, QKey  uint32
	AH         AHAttr
	Private    [256]byte
	PrivateLen uint8
	_          [7]uint8
}

type CMConnectCmd struct {
	Conn  ConnParam
	ID, _ uint32
}

type CMAcceptCmd struct {
	UID   uint64
	Conn  ConnParam
	ID, _ uint32
}

type CMRejectCmd struct {
	ID                 uint32
	PrivateLen, Reason uint8
	_                  [2]uint8
	Private            [256]byte
}

type CMEvent struct {
	UID               uint64
	ID, Event, Status uint32
	Param             [304]byte
	_                 uint32
	ECE               [2]uint32
}

// CMWriteEventCmd is the part of rdma_ucm_write_cm_event that is used.
type CMWriteEventCmd struct {
	ID, _, Event, Status uint32
	Argument             uint64
}

type CMOption struct {
	Value           uint64
	ID, Level, Name uint32
	Len             uint32
}

type CMJoinIPCmd struct {
	Response, UID uint64
	Addr          SockaddrIn6
	ID            uint32
}

type CMJoinCmd struct {
	Response, UID       uint64
	ID                  uint32
	AddrSize, JoinFlags uint16
	Addr                SockaddrStorage
}
