package smp

import (
	"encoding/binary"
	"fmt"
)

// A SMState is the state of a subnet manager (IBTA 14.4.1).
type SMState uint8

// The states of a subnet manager.
const (
	SMNotActive   SMState = 0
	SMDiscovering SMState = 1
	SMStandby     SMState = 2
	SMMaster      SMState = 3
)

// String returns the name of the state.
func (s SMState) String() string {
	switch s {
	case SMNotActive:
		return "not active"
	case SMDiscovering:
		return "discovering"
	case SMStandby:
		return "standby"
	case SMMaster:
		return "master"
	}
	return fmt.Sprintf("state %d (reserved)", uint8(s))
}

// What a Set of SMInfo tells the manager that receives it: its modifier (IBTA
// 14.4.1.2).
const (
	SMHandover    = 1
	SMAcknowledge = 2
	SMDisable     = 3
	SMStandBy     = 4
	SMDiscover    = 5
)

// SMInfo describes a subnet manager (IBTA 14.2.5.13).
//
//	 0 |                         GUID (8 bytes)                        |
//	 8 |                        SM_Key (8 bytes)                       |
//	16 |                           ActCount                            |
//	20 |Priori.|SMState|
type SMInfo struct {
	GUID     uint64
	SMKey    uint64
	ActCount uint32
	Priority uint8 // 4 bits
	State    SMState
}

// SMInfoLen is the length of a SMInfo in bytes.
const SMInfoLen = 21

// Parse reads the attribute.
func (s *SMInfo) Parse(b *[DataLen]byte) {
	s.GUID = binary.BigEndian.Uint64(b[0:])
	s.SMKey = binary.BigEndian.Uint64(b[8:])
	s.ActCount = binary.BigEndian.Uint32(b[16:])
	s.Priority, s.State = b[20]>>4, SMState(b[20]&0xf)
}

// Put writes the attribute.
func (s *SMInfo) Put(b *[DataLen]byte) {
	binary.BigEndian.PutUint64(b[0:], s.GUID)
	binary.BigEndian.PutUint64(b[8:], s.SMKey)
	binary.BigEndian.PutUint32(b[16:], s.ActCount)
	b[20] = s.Priority<<4 | uint8(s.State)&0xf
}
