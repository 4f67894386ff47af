//go:build linux

package uverbs

import "unsafe"

// The commands of ib_user_verbs.h, as far as the rxe provider's users need
// them; the numbers are the kernel's.
const (
	cmdGetContext        = 0
	cmdQueryDevice       = 1
	cmdQueryPort         = 2
	cmdAllocPD           = 3
	cmdDeallocPD         = 4
	cmdCreateAH          = 5
	cmdDestroyAH         = 8
	cmdRegMR             = 9
	cmdReregMR           = 11
	cmdDeregMR           = 13
	cmdAllocMW           = 14
	cmdDeallocMW         = 16
	cmdCreateCompChannel = 17
	cmdCreateCQ          = 18
	cmdResizeCQ          = 19
	cmdDestroyCQ         = 20
	cmdPollCQ            = 21
	cmdPeekCQ            = 22
	cmdReqNotifyCQ       = 23
	cmdCreateQP          = 24
	cmdQueryQP           = 25
	cmdModifyQP          = 26
	cmdDestroyQP         = 27
	cmdPostSend          = 28
	cmdPostRecv          = 29
	cmdAttachMcast       = 30
	cmdDetachMcast       = 31
	cmdCreateSRQ         = 32
	cmdModifySRQ         = 33
	cmdQuerySRQ          = 34
	cmdDestroySRQ        = 35
	cmdCreateXSRQ        = 39

	cmdExtended = 0x80000000
	cmdMask     = 0xff
)

// parse reads a C structure from the front of b.
func parse[T any](b []byte) (v T, ok bool) {
	if len(b) < int(unsafe.Sizeof(v)) {
		return v, false
	}
	copy(bytesOf(&v), b)
	return v, true
}

// bytesOf is the memory of a C structure. T has no pointers and no padding.
func bytesOf[T any](v *T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(v)), unsafe.Sizeof(*v))
}

type cmdHeader struct {
	Command           uint32
	InWords, OutWords uint16
}

type exHeader struct {
	Response                         uint64
	ProviderInWords, ProviderOutWord uint16
	Reserved                         uint32
}

type getContextResp struct{ AsyncFD, NumCompVectors uint32 }

type queryDeviceResp struct {
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

// exQueryDeviceResp ends where the oldest kernels' did, whose length tells
// which of the rest are there.
type exQueryDeviceResp struct {
	Base                     queryDeviceResp
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

type queryPort struct {
	Response uint64
	PortNum  uint8
	_        [7]uint8
}

type queryPortResp struct {
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

type response struct{ Response uint64 }

type handleOnly struct{ Handle uint32 }

type regMR struct {
	Response, Start, Length, HCAVA uint64
	PDHandle, AccessFlags          uint32
}

type regMRResp struct{ MRHandle, LKey, RKey uint32 }

type allocMW struct {
	Response uint64
	PDHandle uint32
	Type     uint8
	_        [3]uint8
}

type allocMWResp struct{ MWHandle, RKey uint32 }

type createCQ struct {
	Response, UserHandle uint64
	CQE, CompVector      uint32
	CompChannel          int32
	_                    uint32
}

type exCreateCQ struct {
	UserHandle      uint64
	CQE, CompVector uint32
	CompChannel     int32
	CompMask, Flags uint32
	_               uint32
}

type createCQResp struct{ CQHandle, CQE uint32 }

type resizeCQ struct {
	Response      uint64
	CQHandle, CQE uint32
}

type resizeCQResp struct{ CQE, _ uint32 }

type reqNotifyCQ struct{ CQHandle, SolicitedOnly uint32 }

type destroy struct {
	Response  uint64
	Handle, _ uint32
}

type destroyCQResp struct{ CompEvents, AsyncEvents uint32 }

// mmInfo tells a provider what to mmap.
type mmInfo struct {
	Offset  uint64
	Size, _ uint32
}

type globalRoute struct {
	DGID                                 [16]byte
	FlowLabel                            uint32
	SGIDIndex, HopLimit, TrafficClass, _ uint8
}

type ahAttr struct {
	GRH                         globalRoute
	DLID                        uint16
	SL, SrcPathBits, StaticRate uint8
	IsGlobal, PortNum, _        uint8
}

type createAH struct {
	Response, UserHandle uint64
	PDHandle, _          uint32
	Attr                 ahAttr
}

type createQP struct {
	Response uint64
	exCreateQPBase
}

// exCreateQPBase is what the two commands that create queue pairs share.
type exCreateQPBase struct {
	UserHandle                        uint64
	PDHandle, SendCQ, RecvCQ, SRQ     uint32
	MaxSendWR, MaxRecvWR              uint32
	MaxSendSGE, MaxRecvSGE, MaxInline uint32
	SQSigAll, Type, IsSRQ, _          uint8
}

type exCreateQP struct {
	exCreateQPBase
	CompMask, CreateFlags, IndTable, SourceQPN uint32
}

type createQPResp struct {
	QPHandle, QPN, MaxSendWR, MaxRecvWR, MaxSendSGE, MaxRecvSGE, MaxInline, _ uint32
}

type exResp struct{ CompMask, ResponseLength uint32 }

type qpDest struct {
	DGID                              [16]byte
	FlowLabel                         uint32
	DLID, _                           uint16
	SGIDIndex, HopLimit, TrafficClass uint8
	SL, SrcPathBits, StaticRate       uint8
	IsGlobal, PortNum                 uint8
}

type queryQP struct {
	Response           uint64
	QPHandle, AttrMask uint32
}

type queryQPResp struct {
	Dest, AltDest                        qpDest
	MaxSendWR, MaxRecvWR                 uint32
	MaxSendSGE, MaxRecvSGE, MaxInline    uint32
	QKey, RQPSN, SQPSN, DestQPN          uint32
	AccessFlags                          uint32
	PKeyIndex, AltPKeyIndex              uint16
	State, CurState, PathMTU, PathMig    uint8
	SQDraining, MaxRdAtomic              uint8
	MaxDestRdAtomic, MinRNRTimer         uint8
	PortNum, Timeout, RetryCnt, RNRRetry uint8
	AltPortNum, AltTimeout, SQSigAll     uint8
	_                                    [5]uint8
}

type modifyQP struct {
	Dest, AltDest                        qpDest
	QPHandle, AttrMask                   uint32
	QKey, RQPSN, SQPSN, DestQPN          uint32
	AccessFlags                          uint32
	PKeyIndex, AltPKeyIndex              uint16
	State, CurState, PathMTU, PathMig    uint8
	EnSQDNotify, MaxRdAtomic             uint8
	MaxDestRdAtomic, MinRNRTimer         uint8
	PortNum, Timeout, RetryCnt, RNRRetry uint8
	AltPortNum, AltTimeout               uint8
	_                                    [2]uint8
}

type destroyResp struct{ EventsReported uint32 }

type postSend struct {
	Response                             uint64
	QPHandle, WRCount, SGECount, WQESize uint32
}

type mcast struct {
	GID      [16]byte
	QPHandle uint32
	MLID, _  uint16
}

type createSRQ struct {
	Response, UserHandle              uint64
	PDHandle, MaxWR, MaxSGE, SRQLimit uint32
}

type createXSRQ struct {
	Response, UserHandle             uint64
	SRQType, PDHandle                uint32
	MaxWR, MaxSGE, SRQLimit, MaxTags uint32
	XRCDHandle, CQHandle             uint32
}

type createSRQResp struct{ SRQHandle, MaxWR, MaxSGE, SRQN uint32 }

type createSRQDriver struct {
	MI        mmInfo
	SRQNum, _ uint32
}

type modifySRQ struct {
	SRQHandle, AttrMask, MaxWR, SRQLimit uint32
}

type querySRQ struct {
	Response     uint64
	SRQHandle, _ uint32
}

type querySRQResp struct{ MaxWR, MaxSGE, SRQLimit, _ uint32 }

// asyncEvent and the eight bytes of a CQ's handle are what event descriptors
// are read for.
type asyncEvent struct {
	Element      uint64
	EventType, _ uint32
}
