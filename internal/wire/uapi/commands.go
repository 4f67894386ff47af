package uapi

// The commands of ib_user_verbs.h, as far as the rxe provider's users need
// them; the numbers are the kernel's.
const (
	CmdGetContext        = 0
	CmdQueryDevice       = 1
	CmdQueryPort         = 2
	CmdAllocPD           = 3
	CmdDeallocPD         = 4
	CmdCreateAH          = 5
	CmdDestroyAH         = 8
	CmdRegMR             = 9
	CmdReregMR           = 11
	CmdDeregMR           = 13
	CmdAllocMW           = 14
	CmdDeallocMW         = 16
	CmdCreateCompChannel = 17
	CmdCreateCQ          = 18
	CmdResizeCQ          = 19
	CmdDestroyCQ         = 20
	CmdPollCQ            = 21
	CmdPeekCQ            = 22
	CmdReqNotifyCQ       = 23
	CmdCreateQP          = 24
	CmdQueryQP           = 25
	CmdModifyQP          = 26
	CmdDestroyQP         = 27
	CmdPostSend          = 28
	CmdPostRecv          = 29
	CmdAttachMcast       = 30
	CmdDetachMcast       = 31
	CmdCreateSRQ         = 32
	CmdModifySRQ         = 33
	CmdQuerySRQ          = 34
	CmdDestroySRQ        = 35
	CmdCreateXSRQ        = 39

	CmdExtended = 0x80000000
	CmdMask     = 0xff
)

type CmdHeader struct {
	Command           uint32
	InWords, OutWords uint16
}

type ExHeader struct {
	Response                         uint64
	ProviderInWords, ProviderOutWord uint16
	Reserved                         uint32
}

type GetContextResp struct{ AsyncFD, NumCompVectors uint32 }

type QueryDeviceResp struct {
	FWVer                      uint64
	NodeGUID, SysImageGUID     [8]byte // big endian
	MaxMRSize, PageSizeCap     uint64
	VendorID, VendorPartID     uint32
	HWVer, MaxQP, MaxQPWR      uint32
	DeviceCapFlags             uint32
	MaxSGE, MaxSGERd           uint32
	MaxCQ, MaxCQE, MaxMR       uint32
	MaxPD                      uint32
	MaxQPRdAtom, MaxEERdAtom   uint32
	MaxResRdAtom               uint32
	MaxQPInitRdAtom            uint32
	MaxEEInitRdAtom            uint32
	AtomicCap                  uint32
	MaxEE, MaxRDD, MaxMW       uint32
	MaxRawIPv6QP, MaxRawEthyQP uint32
	MaxMcastGrp                uint32
	MaxMcastQPAttach           uint32
	MaxTotalMcastQPAttach      uint32
	MaxAH, MaxFMR              uint32
	MaxMapPerFMR               uint32
	MaxSRQ, MaxSRQWR           uint32
	MaxSRQSGE                  uint32
	MaxPKeys                   uint16
	LocalCAAckDelay            uint8
	PhysPortCnt                uint8
	_                          [4]uint8
}

// ExQueryDeviceResp has the fields of the oldest kernels that have the command. Its
// length says which later fields it has.
type ExQueryDeviceResp struct {
	Base                     QueryDeviceResp
	CompMask, ResponseLength uint32
	ODPGeneral               uint64
	ODPTransport             [3]uint32
	_                        uint32
	TimestampMask            uint64
	HCACoreClock             uint64
	DeviceCapFlagsEx         uint64
	RSS                      [4]uint32
	MaxWQTypeRQ              uint32
	RawPacketCaps            uint32
	TM                       [6]uint32
	CQModeration             [2]uint32
	MaxDMSize                uint64
	XRCODPCaps               uint32
	_                        uint32
}

type QueryPort struct {
	Response uint64
	PortNum  uint8
	_        [7]uint8
}

type QueryPortResp struct {
	PortCapFlags, MaxMsgSz        uint32
	BadPKeyCntr, QKeyViolCntr     uint32
	GIDTblLen                     uint32
	PKeyTblLen, LID, SMLID        uint16
	State, MaxMTU, ActiveMTU, LMC uint8
	MaxVLNum, SMSL, SubnetTimeout uint8
	InitTypeReply, ActiveWidth    uint8
	ActiveSpeed, PhysState        uint8
	LinkLayer, Flags, _           uint8
}

type Response struct{ Response uint64 }

type HandleOnly struct{ Handle uint32 }

type RegMR struct {
	Response, Start, Length, HCAVA uint64
	PDHandle, AccessFlags          uint32
}

type RegMRResp struct{ MRHandle, LKey, RKey uint32 }

type AllocMW struct {
	Response uint64
	PDHandle uint32
	Type     uint8
	_        [3]uint8
}

type AllocMWResp struct{ MWHandle, RKey uint32 }

type CreateCQ struct {
	Response, UserHandle uint64
	CQE, CompVector      uint32
	CompChannel          int32
	_                    uint32
}

type ExCreateCQ struct {
	UserHandle      uint64
	CQE, CompVector uint32
	CompChannel     int32
	CompMask, Flags uint32
	_               uint32
}

type CreateCQResp struct{ CQHandle, CQE uint32 }

type ResizeCQ struct {
	Response      uint64
	CQHandle, CQE uint32
}

type ResizeCQResp struct{ CQE, _ uint32 }

type ReqNotifyCQ struct{ CQHandle, SolicitedOnly uint32 }

type Destroy struct {
	Response  uint64
	Handle, _ uint32
}

type DestroyCQResp struct{ CompEvents, AsyncEvents uint32 }

// MmInfo says what a provider maps.
type MmInfo struct {
	Offset  uint64
	Size, _ uint32
}

type CreateAH struct {
	Response, UserHandle uint64
	PDHandle, _          uint32
	Attr                 AHAttr
}

type CreateQP struct {
	Response uint64
	ExCreateQPBase
}

// ExCreateQPBase is the common part of the two commands that create queue pairs.
type ExCreateQPBase struct {
	UserHandle                        uint64
	PDHandle, SendCQ, RecvCQ, SRQ     uint32
	MaxSendWR, MaxRecvWR              uint32
	MaxSendSGE, MaxRecvSGE, MaxInline uint32
	SQSigAll, Type, IsSRQ, _          uint8
}

type ExCreateQP struct {
	ExCreateQPBase
	CompMask, CreateFlags, IndTable, SourceQPN uint32
}

type CreateQPResp struct {
	QPHandle, QPN, MaxSendWR, MaxRecvWR, MaxSendSGE, MaxRecvSGE, MaxInline, _ uint32
}

type ExResp struct{ CompMask, ResponseLength uint32 }

type QueryQP struct {
	Response           uint64
	QPHandle, AttrMask uint32
}

type QueryQPResp struct {
	Dest, AltDest                     QPDest
	MaxSendWR, MaxRecvWR              uint32
	MaxSendSGE, MaxRecvSGE, MaxInline uint32
	QPAttrs
	_ uint32
}

type ModifyQP struct {
	Dest, AltDest      QPDest
	QPHandle, AttrMask uint32
	QPAttrs
}

type DestroyResp struct{ EventsReported uint32 }

type PostSend struct {
	Response                             uint64
	QPHandle, WRCount, SGECount, WQESize uint32
}

type Mcast struct {
	GID      [16]byte
	QPHandle uint32
	MLID, _  uint16
}

type CreateSRQ struct {
	Response, UserHandle              uint64
	PDHandle, MaxWR, MaxSGE, SRQLimit uint32
}

type CreateXSRQ struct {
	Response, UserHandle             uint64
	SRQType, PDHandle                uint32
	MaxWR, MaxSGE, SRQLimit, MaxTags uint32
	XRCDHandle, CQHandle             uint32
}

type CreateSRQResp struct{ SRQHandle, MaxWR, MaxSGE, SRQN uint32 }

type CreateSRQDriver struct {
	MI        MmInfo
	SRQNum, _ uint32
}

// What ModifySRQ changes.
const (
	SRQMaxWR = 1 << 0
	SRQLimit = 1 << 1
)

type ModifySRQ struct {
	SRQHandle, AttrMask, MaxWR, SRQLimit uint32
}

type QuerySRQ struct {
	Response     uint64
	SRQHandle, _ uint32
}

type QuerySRQResp struct{ MaxWR, MaxSGE, SRQLimit, _ uint32 }

// AsyncEvent is what programs read from a descriptor of asynchronous events. From that
// of a completion channel they read eight bytes, the program's name for a queue.
type AsyncEvent struct {
	Element   uint64
	EventType uint32
	_         uint32
}

// RxeQP is the part of the answer for the provider: where its rings are.
type RxeQP struct{ RQ, SQ MmInfo }
