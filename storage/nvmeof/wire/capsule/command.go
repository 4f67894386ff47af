// Package capsule has the entries that hosts and controllers exchange: commands of 64 bytes with the
// descriptor of their data, completions of 16 bytes, and the opcodes.
package capsule

import (
	"encoding/binary"

	"softrdma/storage/nvmeof/wire/format"
	"softrdma/storage/nvmeof/wire/status"
)

var le = binary.LittleEndian

// Lengths in bytes.
const (
	CommandLen    = 64 // a submission queue entry
	CompletionLen = 16 // a completion queue entry
)

// A Command is a submission queue entry (base 2.0, 3.3.3.1). Fabrics commands have it, too:
// Fabrics, Connect and Property return their fields.
type Command struct {
	Opcode Opcode
	Flags  uint8 // bits 1:0 fused operation, bits 7:6 PRP or SGL
	ID     uint16
	NSID   uint32
	SGL    SGL
	CDW10  uint32
	CDW11  uint32
	CDW12  uint32
	CDW13  uint32
	CDW14  uint32
	CDW15  uint32
}

// FlagSGL, in Command.Flags, says that the data pointer is an SGL. Every command over fabrics has it.
const FlagSGL = 1 << 6

// FlagFused masks the bits of Command.Flags that fuse two commands.
const FlagFused = 3

// ParseCommand parses the entry at the start of a capsule.
func ParseCommand(b []byte) (Command, error) {
	if err := format.Needs(b, CommandLen, "command capsule"); err != nil {
		return Command{}, err
	}
	return Command{
		Opcode: Opcode(b[0]), Flags: b[1], ID: le.Uint16(b[2:]), NSID: le.Uint32(b[4:]), SGL: parseSGL(b[24:40]),
		CDW10: le.Uint32(b[40:]), CDW11: le.Uint32(b[44:]), CDW12: le.Uint32(b[48:]),
		CDW13: le.Uint32(b[52:]), CDW14: le.Uint32(b[56:]), CDW15: le.Uint32(b[60:]),
	}, nil
}

// Append appends the 64 bytes of the entry.
func (c *Command) Append(b []byte) []byte {
	b, p := format.Grow(b, CommandLen)
	p[0], p[1] = byte(c.Opcode), c.Flags
	le.PutUint16(p[2:], c.ID)
	le.PutUint32(p[4:], c.NSID)
	c.SGL.put(p[24:40])
	for i, v := range [...]uint32{c.CDW10, c.CDW11, c.CDW12, c.CDW13, c.CDW14, c.CDW15} {
		le.PutUint32(p[40+4*i:], v)
	}
	return b
}

// Fabrics returns the type of a fabrics command.
func (c *Command) Fabrics() Fabrics { return Fabrics(c.NSID) }

// ToController reports whether data of the command flows from the host to the controller. Bits 1:0
// of the opcode, or of the type of a fabrics command, say so.
func (c *Command) ToController() bool {
	if c.Opcode == OpFabrics {
		return c.Fabrics()&1 != 0
	}
	return c.Opcode&1 != 0
}

// ToHost reports whether data of the command flows from the controller to the host.
func (c *Command) ToHost() bool {
	if c.Opcode == OpFabrics {
		return c.Fabrics()&3 == 2
	}
	return c.Opcode&3 == 2
}

// LBA returns the first block of a command for blocks.
func (c *Command) LBA() uint64 { return uint64(c.CDW11)<<32 | uint64(c.CDW10) }

// SetLBA sets the first block of a command for blocks.
func (c *Command) SetLBA(lba uint64) { c.CDW10, c.CDW11 = uint32(lba), uint32(lba>>32) }

// Blocks returns how many blocks a command reads, writes or compares, 1 to 65536.
func (c *Command) Blocks() uint32 { return c.CDW12&0xffff + 1 }

// Bits of CDW12 in commands for blocks.
const (
	ForceUnitAccess = 1 << 30 // the write is on the medium when it completes
	Deallocate      = 1 << 25 // of write zeroes: the blocks may be deallocated
)

// A Completion is a completion queue entry (base 2.0, 3.3.3.2).
type Completion struct {
	Result uint64 // of the command, 32 or 64 bits
	SQHead uint16
	Queue  uint16
	ID     uint16 // of the command
	Status status.Status
}

// NoFlowControl is Completion.SQHead of a queue whose host has disabled flow control.
const NoFlowControl = 0xffff

// ParseCompletion parses the entry at the start of a response capsule.
func ParseCompletion(b []byte) (Completion, error) {
	if err := format.Needs(b, CompletionLen, "completion"); err != nil {
		return Completion{}, err
	}
	return Completion{le.Uint64(b), le.Uint16(b[8:]), le.Uint16(b[10:]), le.Uint16(b[12:]), status.Status(le.Uint16(b[14:]) >> 1)}, nil
}

// Put writes the entry to the first 16 bytes of b.
func (c *Completion) Put(b []byte) {
	le.PutUint64(b, c.Result)
	le.PutUint16(b[8:], c.SQHead)
	le.PutUint16(b[10:], c.Queue)
	le.PutUint16(b[12:], c.ID)
	le.PutUint16(b[14:], uint16(c.Status)<<1)
}

// A Range is an entry of dataset management: blocks that the host deallocates.
type Range struct {
	Attributes uint32
	Blocks     uint32
	LBA        uint64
}

// RangeLen is the length of a Range in bytes. A command has at most MaxRanges.
const (
	RangeLen  = 16
	MaxRanges = 256
)

// DSMDeallocate is the bit of CDW11 that asks dataset management to deallocate the ranges.
const DSMDeallocate = 1 << 2

// ParseRange parses the range at the start of b.
func ParseRange(b []byte) (Range, error) {
	if err := format.Needs(b, RangeLen, "dataset management range"); err != nil {
		return Range{}, err
	}
	return Range{le.Uint32(b), le.Uint32(b[4:]), le.Uint64(b[8:])}, nil
}

// Append appends the 16 bytes of the range.
func (r Range) Append(b []byte) []byte {
	b, p := format.Grow(b, RangeLen)
	le.PutUint32(p, r.Attributes)
	le.PutUint32(p[4:], r.Blocks)
	le.PutUint64(p[8:], r.LBA)
	return b
}
