package ethernet

import "encoding/binary"

// ControlMAC is the address of frames that pause the other end of a link. No bridge forwards
// frames to it (802.1Q table 8-1).
var ControlMAC = MAC{0x01, 0x80, 0xc2, 0, 0, 0x01}

// The operations of MAC control (802.3 table 31A-1).
const (
	OpPause = 0x0001 // 802.3 31B
	OpPFC   = 0x0101 // 802.3 31D, priority-based flow control of 802.1Q clause 36
)

// QuantumBits is the number of bit times of a pause quantum (802.3 31B.2).
const QuantumBits = 512

// MaxQuanta is the longest pause that a frame can ask for.
const MaxQuanta = 0xffff

// Priorities is the number of priorities of a link (802.1Q 6.9.3).
const Priorities = 8

// A Control is a frame of MAC control that pauses the other end of a link. It has the length of
// a shortest frame.
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-------------------------------+-------------------------------+
//	|   MAC control (0x8808)        |  Opcode: 0x0001 or 0x0101     |
//	+-------------------------------+-------------------------------+
//	|  0x0001: quanta of all        |                               |
//	+-------------------------------+-------------------------------+
//	|  0x0101: 0    | class enable  |  quanta of priority 0         |
//	+-------------------------------+-------------------------------+
//	|  quanta of priority 1         |  ... of priority 7            |
//	+-------------------------------+-------------------------------+
type Control struct {
	Src    MAC
	Op     uint16
	Enable uint8              // priorities that the frame is about; all for OpPause
	Quanta [Priorities]uint16 // 0 ends a pause; OpPause has one number for all
}

const (
	opAt     = HeaderLen
	enableAt = opAt + 2
	quantaAt = enableAt + 2
)

// Append appends the frame to b.
func (c *Control) Append(b []byte) []byte {
	var f [MinLen]byte
	h := Header{Dst: ControlMAC, Src: c.Src, Type: TypeControl}
	h.Put(f[:])
	binary.BigEndian.PutUint16(f[opAt:], c.Op)
	if c.Op == OpPause {
		binary.BigEndian.PutUint16(f[enableAt:], c.Quanta[0])
		return append(b, f[:]...)
	}
	f[enableAt+1] = c.Enable
	for i, q := range c.Quanta {
		binary.BigEndian.PutUint16(f[quantaAt+2*i:], q)
	}
	return append(b, f[:]...)
}

// Parse reads a frame and reports whether it is one of these two operations to ControlMAC. Times
// of priorities that are not enabled are read as 0.
func (c *Control) Parse(b []byte) bool {
	var h Header
	if h.Parse(b) != HeaderLen || h.Type != TypeControl || h.Dst != ControlMAC || len(b) < MinLen {
		return false
	}
	*c = Control{Src: h.Src, Op: binary.BigEndian.Uint16(b[opAt:])}
	switch c.Op {
	case OpPause:
		c.Enable = 0xff
		for i := range c.Quanta {
			c.Quanta[i] = binary.BigEndian.Uint16(b[enableAt:])
		}
		return true
	case OpPFC:
		c.Enable = b[enableAt+1] // the other byte is reserved
		for i := range c.Quanta {
			if c.Enable&(1<<i) != 0 {
				c.Quanta[i] = binary.BigEndian.Uint16(b[quantaAt+2*i:])
			}
		}
		return true
	}
	return false
}
