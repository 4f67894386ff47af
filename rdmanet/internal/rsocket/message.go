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

// An Op says what a message is about.
type Op uint8

// The operations. The others are reserved.
const (
	OpData    Op = 0 // data: bytes of it were written where the peer's buffer goes on
	OpDirect  Op = 2 // never sent: names WRITEs into mapped memory in work requests
	OpCredits Op = 4 // an entry of the target table may be new; data: the credit limit
	OpIomap   Op = 6 // data: the index of a new entry of the table of mapped memory
	OpControl Op = 7 // data: one of the Control constants
)

// The control messages. A keep-alive is in fact a WRITE of no bytes without
// immediate data, which no program sees: the transport acknowledges it.
const (
	ControlDisconnect = 0 // both directions are closed
	ControlKeepAlive  = 1
	ControlShutdown   = 2 // the peer sends no more data
)

// MaxData is the largest data of a message.
const MaxData = 1<<29 - 1

// NewMessage makes a message.
func NewMessage(op Op, data uint32) Message { return Message(uint32(op)<<29 | data&MaxData) }

// MessageLen is the length of a message that travels as a SEND's payload, in its
// sender's byte order: little-endian here, as the tables are.
const MessageLen = 4

// ParseMessage reads such a message.
func ParseMessage(b []byte) Message { return Message(binary.LittleEndian.Uint32(b)) }

// Put writes it.
func (m Message) Put(b []byte) { binary.LittleEndian.PutUint32(b, uint32(m)) }

// Op is the operation.
func (m Message) Op() Op { return Op(m >> 29) }

// Data is the data.
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
		}
	}
	return fmt.Sprintf("reserved message %#08x", uint32(m))
}
