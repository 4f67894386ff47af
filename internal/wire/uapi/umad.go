package uapi

import "encoding/binary"

// MADABI is the version of the interface of rdma/ib_user_mad.h.
const MADABI = 5

// The ioctls of the device files of management datagrams.
const (
	MADRegisterAgent   = 0xc01c1b01
	MADUnregisterAgent = 0x40041b02
	MADEnablePKey      = 0x1b03
	MADRegisterAgent2  = 0xc0281b04
)

// MADHeader is ib_user_mad_hdr, which precedes each datagram that is read or written.
// Arrays of bytes are big endian.
type MADHeader struct {
	ID, Status                 uint32
	TimeoutMS, Retries, Length uint32
	QPN, QKey                  [4]byte
	LID                        [2]byte
	SL, PathBits               uint8
	GRHPresent, GIDIndex       uint8
	HopLimit, TrafficClass     uint8
	GID                        [16]byte
	FlowLabel                  [4]byte
	PKeyIndex                  uint16
	_                          [6]uint8
}

// MADHeaderOld is the length of ib_user_mad_hdr_old, which ends before the P_Key index.
const MADHeaderOld = 56

// MADMethods has a bit for each method, in words of 64 bits.
type MADMethods [16]byte

// Has reports whether the bit of a method is set.
func (m *MADMethods) Has(method uint8) bool {
	return binary.NativeEndian.Uint64(m[method/64*8:])>>(method%64)&1 != 0
}

// MADRegister is ib_user_mad_reg_req.
type MADRegister struct {
	ID                  uint32
	Methods             MADMethods
	QPN, Class, Version uint8
	OUI                 [3]uint8
	RMPPVersion, _      uint8
}

// MADRegister2 is ib_user_mad_reg_req2.
type MADRegister2 struct {
	ID, QPN        uint32
	Class, Version uint8
	_              uint16
	Flags          uint32
	Methods        MADMethods
	OUI            uint32
	RMPPVersion    uint8
	_              [3]uint8
}
