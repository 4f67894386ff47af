package rsocket

import (
	"encoding/binary"
	"fmt"

	"softrdma/internal/reason"
)

// Version is the only version of the connection data that there is.
const Version = 1

// ConnDataLen is the length of the connection data.
const ConnDataLen = 40

// The flags of the connection data.
const (
	FlagBigEndian = 1 << 0 // what is written into this side's tables must be big-endian
	FlagIomap     = 1 << 1 // IomapSize counts
)

// An SGE is a range of a side's registered memory: an entry of its peer's
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
	Credits   uint16 // messages of data that the other side may send before it is told more
	IomapSize uint8  // entries of the table of mapped memory behind the target table, as scale has it
	Target    SGE    // where the other side tells its buffers; Length counts entries
	Data      SGE    // the first buffer
}

// ParseConnData reads connection data. What lies behind is ignored: the
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

// order is the byte order of what the other side writes into this one's tables.
func (c *ConnData) order() binary.ByteOrder {
	if c.Flags&FlagBigEndian != 0 {
		return binary.BigEndian
	}
	return binary.LittleEndian
}

// Iomaps is how many entries the table of mapped memory has.
func (c *ConnData) Iomaps() int { return unscale(c.IomapSize) }

// unscale reads a size of eight bits: above 128 the lower seven count 256s.
func unscale(n uint8) int {
	if n <= 128 {
		return int(n)
	}
	return int(n&127) << 8
}

// ScaleIomaps is the size to announce for at most n entries, and how many that
// are.
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

// ParseTarget reads an entry of this side's target table, which this package
// announces to be little-endian on every machine.
func ParseTarget(b []byte) SGE { return parseSGE(binary.LittleEndian, b[:SGELen]) }

// A Fault is a breach of the protocol by the peer.
type Fault struct{ Detail reason.Detail }

// Error gives the sentence of the reason.
func (f *Fault) Error() string { return fmt.Sprintf("rsockets peer: %v", f.Detail) }

// Unwrap returns the named reason (verbs.ReasonError).
func (f *Fault) Unwrap() error { return f.Detail.Err() }

func fault(r reason.Reason, expected, found uint64) error {
	return &Fault{reason.Detail{Reason: r, Expected: expected, Found: found}}
}
