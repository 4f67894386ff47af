// Package cc has the formats of congestion control management (IBTA Annex A10):
// the header with its key, the attributes that describe a node, and the lengths
// of those that only contain settings.
//
// It does no I/O, keeps no state and never panics on any input.
package cc

import (
	"encoding/binary"

	"softrdma/internal/wire/mad"
)

// ClassVersion is the version of the class.
const ClassVersion = 2

// A datagram has the key behind the common header, a log at LogAt or other data
// at DataAt.
//
//	 0 |                 Common header (24 bytes)                      |
//	24 |                      CC_Key (8 bytes)                         |
//	32 |        Reserved (32 bytes), or CongestionLog (224 bytes)      |
//	64 |                     Data (192 bytes)                          |
const (
	keyAt   = 24
	LogAt   = 32
	LogLen  = mad.Len - LogAt
	DataAt  = 64
	DataLen = mad.Len - DataAt
)

// Attributes.
const (
	AttrCongestionInfo              mad.AttributeID = 0x0011
	AttrCongestionKeyInfo           mad.AttributeID = 0x0012
	AttrCongestionLog               mad.AttributeID = 0x0013
	AttrSwitchCongestionSetting     mad.AttributeID = 0x0014
	AttrSwitchPortCongestionSetting mad.AttributeID = 0x0015
	AttrAdapterCongestionSetting    mad.AttributeID = 0x0016
	AttrCongestionControlTable      mad.AttributeID = 0x0017
	AttrTimeStamp                   mad.AttributeID = 0x0018
)

// Sizes of the attributes that have several blocks.
const (
	TableBlock = 64 // entries of a CongestionControlTable
	PortBlock  = 32 // ports of a SwitchPortCongestionSetting
)

// SettingLen returns the length in bytes of an attribute that only contains settings, 0 for others.
func SettingLen(a mad.AttributeID) int {
	switch a {
	case AttrSwitchCongestionSetting:
		return 76
	case AttrSwitchPortCongestionSetting:
		return 4 * PortBlock
	case AttrAdapterCongestionSetting:
		return 4 + 16*8 // by service level
	case AttrCongestionControlTable:
		return 4 + 2*TableBlock
	}
	return 0
}

// Key returns the CC_Key of a datagram.
func Key(d *[mad.Len]byte) uint64 { return binary.BigEndian.Uint64(d[keyAt:]) }

// SetKey writes the CC_Key of a datagram.
func SetKey(d *[mad.Len]byte, key uint64) { binary.BigEndian.PutUint64(d[keyAt:], key) }

// Data returns the data of a datagram.
func Data(d *[mad.Len]byte) *[DataLen]byte { return (*[DataLen]byte)(d[DataAt:]) }

// A Congestion describes what a node can do.
//
//	0 |         CongestionInfo        |ControlTableCap|   Reserved    |
type Congestion struct {
	Info     uint16
	TableCap uint8 // blocks of the CongestionControlTable
}

// Parse reads the attribute.
func (c *Congestion) Parse(b *[DataLen]byte) {
	c.Info, c.TableCap = binary.BigEndian.Uint16(b[:]), b[2]
}

// Put writes the attribute.
func (c *Congestion) Put(b *[DataLen]byte) {
	binary.BigEndian.PutUint16(b[:], c.Info)
	b[2] = c.TableCap
}

// A KeyInfo is the key of a node, and how it is protected.
//
//	 0 |                      CC_Key (8 bytes)                         |
//	 8 |P|         Reserved            |          LeasePeriod          |
//	12 |          Violations           |           Reserved            |
type KeyInfo struct {
	Key         uint64
	Protect     bool
	LeasePeriod uint16 // seconds; 0 does not end
	Violations  uint16
}

// Parse reads the attribute.
func (k *KeyInfo) Parse(b *[DataLen]byte) {
	k.Key, k.Protect = binary.BigEndian.Uint64(b[:]), b[8]>>7 != 0
	k.LeasePeriod, k.Violations = binary.BigEndian.Uint16(b[10:]), binary.BigEndian.Uint16(b[12:])
}

// Put writes the attribute.
func (k *KeyInfo) Put(b *[DataLen]byte) {
	binary.BigEndian.PutUint64(b[:], k.Key)
	b[8] &= 0x7f
	if k.Protect {
		b[8] |= 0x80
	}
	binary.BigEndian.PutUint16(b[10:], k.LeasePeriod)
	binary.BigEndian.PutUint16(b[12:], k.Violations)
}

// Types of a CongestionLog.
const (
	LogSwitch  = 1
	LogAdapter = 2
)

// PutEmptyLog writes a log without events. Times are in units of 1.024 µs.
//
//	0 |    LogType    |CongestionFlags|         EventCounter          |
//	4 |    CurrentTimeStamp of a switch; map of an adapter's events   |
//	8 |    map of a switch's ports; CurrentTimeStamp of an adapter    |
func PutEmptyLog(d *[mad.Len]byte, logType uint8, now uint32) {
	b := d[LogAt:]
	clear(b)
	b[0] = logType
	at := 4
	if logType == LogAdapter {
		at = 8
	}
	binary.BigEndian.PutUint32(b[at:], now)
}
