package rsocket

import (
	"encoding/binary"
	"fmt"
)

// A Message is the immediate data of a WRITE, or on transports without it the
// payload of a SEND:
//
//	 31 29 28                                                      0
//	+-----+---------------------------------------------------------+
//	| op  |                          data                           |
//	+-----+---------------------------------------------------------+
type Message uint32

// An Op is the operation of a message.
type Op uint8

// The operations. The others are reserved.
const (
	OpData    Op = 0 // data: the number of bytes that were appended to the buffer
	OpDirect  Op = 2 // never sent: marks WRITEs into mapped memory in work requests
	OpCredits Op = 4 // an entry of the target table may be new; data: the credit limit
	OpIomap   Op = 6 // data: the index of a new entry of the table of mapped memory
	OpControl Op = 7 // data: one of the Control constants
)

// The control messages. A keep-alive is a WRITE of no bytes without immediate data.
// The transport acknowledges it and no program sees it.
const (
	ControlDisconnect = 0 // both directions are closed
	ControlKeepAlive  = 1
	ControlShutdown   = 2 // the sender of the message sends no more data
	ControlSkip       = 3 // the sender does not fill the rest of the target that it uses; only to a peer with FlagSkip
)

// MaxData is the largest data field of a message.
const MaxData = 1<<29 - 1

// NewMessage returns a message.
func NewMessage(op Op, data uint32) Message { return Message(uint32(op)<<29 | data&MaxData) }

// MessageLen is the length of a message that is the payload of a SEND. It is in the
// sender's byte order, which is little-endian here, as for the tables.
const MessageLen = 4

// ParseMessage parses a message that is the payload of a SEND.
func ParseMessage(b []byte) Message { return Message(binary.LittleEndian.Uint32(b)) }

// Put writes the message to the first MessageLen bytes of b.
func (m Message) Put(b []byte) { binary.LittleEndian.PutUint32(b, uint32(m)) }

// Op returns the operation.
func (m Message) Op() Op { return Op(m >> 29) }

// Data returns the data field.
func (m Message) Data() uint32 { return uint32(m) & MaxData }

// String names the message, for traces.
func (m Message) String() string {
	d := m.Data()
	switch m.Op() {
	case OpData:
		return fmt.Sprintf("DATA of %d bytes", d)
	case OpCredits:
		return fmt.Sprintf("SGL: credit up to %d", uint16(d))
	case OpIomap:
		return fmt.Sprintf("IOMAP_SGL: entry %d", d)
	case OpControl:
		switch d {
		case ControlDisconnect:
			return "CTRL: DISCONNECT"
		case ControlKeepAlive:
			return "CTRL: KEEPALIVE"
		case ControlShutdown:
			return "CTRL: SHUTDOWN"
		case ControlSkip:
			return "CTRL: SKIP"
		}
	}
	return fmt.Sprintf("reserved message %#08x", uint32(m))
}
