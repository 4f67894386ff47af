package rsocket

import (
	"encoding/binary"
	"fmt"

	"softrdma/internal/reason"
)

// Version is the version of the connection data. There is only one.
const Version = 1

// ConnDataLen is the length of the connection data.
const ConnDataLen = 40

// The flags of the connection data.
const (
	FlagBigEndian = 1 << 0 // the peer must write this side's tables in big-endian order
	FlagIomap     = 1 << 1 // IomapSize is valid
	FlagSkip      = 1 << 5 // this side understands ControlSkip; ignored as FlagProof
	FlagSizes     = 1 << 6 // this side knows targets of other lengths than the first, over transports without immediate data; ignored as FlagProof
	FlagProof     = 1 << 7 // this side answers READs of no bytes; librdmacm does not have it and ignores it
)

// An SGE is a range of a side's registered memory. It is an entry of the peer's
// target table.
type SGE struct {
	Addr   uint64
	Key    uint32
	Length uint32
}

// SGELen is the length of an SGE, in connection data and in target tables.
const SGELen = 16

// ConnData is what both sides send as private data when they connect
// (rs_conn_data), in network byte order:
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+---------------+---------------+-------------------------------+
//	|    version    |     flags     |            credits            |
//	+---------------+---------------+---------------+---------------+
//	|                   reserved                    |  iomap size   |
//	+-----------------------------------------------+---------------+
//	|                                                               |
//	|       target table: address (64), R_Key (32), entries (32)    |
//	|                                                               |
//	+---------------------------------------------------------------+
//	|                                                               |
//	|     first half of the buffer: address, R_Key, length in bytes |
//	|                                                               |
//	+---------------------------------------------------------------+
type ConnData struct {
	Flags     uint8
	Credits   uint16 // data messages that the other side may send before it gets more credit
	IomapSize uint8  // encoded number of entries in the table of mapped memory, see ScaleIomaps
	Target    SGE    // this side's target table, in which the other side announces its buffers; Length counts entries
	Data      SGE    // the first buffer
}

// ParseConnData parses connection data. It ignores bytes after it, because the
// connection manager pads private data.
func ParseConnData(b []byte) (ConnData, error) {
	if len(b) < ConnDataLen {
		return ConnData{}, fault(reason.SocketConnData, ConnDataLen, uint64(len(b)))
	}
	if b[0] != Version {
		return ConnData{}, fault(reason.SocketVersion, Version, uint64(b[0]))
	}
	c := ConnData{
		Flags: b[1], Credits: binary.BigEndian.Uint16(b[2:]), IomapSize: b[7],
		Target: parseSGE(binary.BigEndian, b[8:]), Data: parseSGE(binary.BigEndian, b[24:]),
	}
	if c.Flags&FlagIomap == 0 {
		c.IomapSize = 0
	}
	if c.Target.Length == 0 {
		return ConnData{}, fault(reason.SocketTarget, TargetEntries, 0)
	}
	return c, nil
}

// Put writes the connection data to the first ConnDataLen bytes of b.
func (c *ConnData) Put(b []byte) {
	b = b[:ConnDataLen]
	clear(b)
	b[0], b[1], b[7] = Version, c.Flags, c.IomapSize
	binary.BigEndian.PutUint16(b[2:], c.Credits)
	putSGE(binary.BigEndian, b[8:], c.Target)
	putSGE(binary.BigEndian, b[24:], c.Data)
}

// order returns the byte order in which the other side writes this side's tables.
func (c *ConnData) order() binary.ByteOrder {
	if c.Flags&FlagBigEndian != 0 {
		return binary.BigEndian
	}
	return binary.LittleEndian
}

// Iomaps returns the number of entries in the table of mapped memory.
func (c *ConnData) Iomaps() int { return unscale(c.IomapSize) }

// unscale decodes an 8-bit size: above 128 the lower seven bits count units of 256.
func unscale(n uint8) int {
	if n <= 128 {
		return int(n)
	}
	return int(n&127) << 8
}

// ScaleIomaps returns the encoded size for at most n entries and the number of
// entries that it stands for.
func ScaleIomaps(n int) (size uint8, entries int) {
	switch {
	case n >= 256:
		size = 128 | uint8(min(n>>8, 127))
	default:
		size = uint8(min(max(n, 0), 128))
	}
	return size, unscale(size)
}

func parseSGE(o binary.ByteOrder, b []byte) SGE {
	return SGE{Addr: o.Uint64(b), Key: o.Uint32(b[8:]), Length: o.Uint32(b[12:])}
}

func putSGE(o binary.ByteOrder, b []byte, s SGE) {
	o.PutUint64(b, s.Addr)
	o.PutUint32(b[8:], s.Key)
	o.PutUint32(b[12:], s.Length)
}

// ParseTarget parses an entry of this side's target table. Its byte order is
// little-endian on every machine, as this side's connection data says.
func ParseTarget(b []byte) SGE { return parseSGE(binary.LittleEndian, b[:SGELen]) }

// A Fault is a violation of the protocol by the peer.
type Fault struct{ Detail reason.Detail }

// Error returns the text of the reason.
func (f *Fault) Error() string { return fmt.Sprintf("rsockets peer: %v", f.Detail) }

// Unwrap returns the named reason (verbs.ReasonError).
func (f *Fault) Unwrap() error { return f.Detail.Err() }

func fault(r reason.Reason, expected, found uint64) error {
	return &Fault{reason.Detail{Reason: r, Expected: expected, Found: found}}
}

// Doubled reports whether n is base, doubled any number of times.
func Doubled(base, n uint32) bool {
	for ; base != 0 && base < n; base *= 2 {
	}
	return base == n && n != 0
}
