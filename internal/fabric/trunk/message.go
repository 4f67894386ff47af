package trunk

import (
	"encoding/binary"

	"softrdma/internal/management/hardware"
	"softrdma/internal/reason"
	"softrdma/internal/wire/mad/smp"
)

// A message is what the stream of a session consists of: a type, the length of the rest, and
// the rest.
type message uint8

const (
	// nodes has GUIDs of the sender's nodes and ports. They come first, in as many messages
	// as needed; the last one is shorter than the others.
	nodes message = iota + 1

	// portState says whether the sender's port looks for a neighbor and what link it can make.
	portState

	// linkUp says that the sender's port is connected, by a link that it names.
	linkUp

	// linkDown says that the sender's port is not connected any more.
	linkDown

	// frame has a frame of the link.
	frame
)

const (
	messageHeaderLen = 3
	epochLen         = 4

	// MaxFrame is the length of the longest frame: one of Ethernet, with what a relay writes in front of it.
	MaxFrame = 9216

	// maxMessage is the most that follows a message's header.
	maxMessage = epochLen + MaxFrame

	// guidsInMessage is how many GUIDs all messages but the last have.
	guidsInMessage = 500

	// maxGUIDs is the most GUIDs that a peer may have. A LID is needed for each port.
	maxGUIDs = 1 << 17
)

// appendMessage appends the header of a message with its epoch.
func appendMessage(b []byte, m message, body int, epoch uint32) []byte {
	b = append(b, byte(m))
	b = binary.BigEndian.AppendUint16(b, uint16(epochLen+body))
	return binary.BigEndian.AppendUint32(b, epoch)
}

// appendGUIDs appends the messages that name GUIDs.
func appendGUIDs(b []byte, guids []uint64) []byte {
	for {
		n := min(len(guids), guidsInMessage)
		b = appendMessage(b, nodes, 8*n, 0)
		for _, g := range guids[:n] {
			b = binary.BigEndian.AppendUint64(b, g)
		}
		if guids = guids[n:]; n < guidsInMessage {
			return b
		}
	}
}

// A PortState is what a trunk must know of its port.
type PortState struct {
	Polls    bool // looks for a neighbor
	Up       bool // has a neighbor
	Width    smp.Width
	Speed    smp.Speed
	ExtSpeed smp.ExtSpeed // enabled, as Width and Speed
}

// linkLen is the length of the widths and speeds of a link.
const linkLen = 3

func appendState(b []byte, epoch uint32, s *PortState) []byte {
	polls := byte(0)
	if s.Polls {
		polls = 1
	}
	return append(appendMessage(b, portState, 1+linkLen, epoch), polls, byte(s.Width), byte(s.Speed), byte(s.ExtSpeed))
}

func appendLink(b []byte, epoch uint32, l *hardware.Link) []byte {
	return append(appendMessage(b, linkUp, linkLen, epoch), byte(l.Width), byte(l.Speed), byte(l.ExtSpeed))
}

// An assembler cuts the stream into messages.
type assembler struct {
	part []byte // of a message
}

// feed calls f for each message that b completes, until one has a fault.
func (a *assembler) feed(b []byte, f func(m message, body []byte) reason.Detail) reason.Detail {
	for len(b) > 0 {
		if len(a.part) == 0 {
			if n, ok := messageLen(b); ok && n <= len(b) && n <= messageHeaderLen+maxMessage {
				if d := f(message(b[0]), b[messageHeaderLen:n]); d.Reason != reason.None {
					return d
				}
				b = b[n:]
				continue
			}
		}
		need := messageHeaderLen
		if n, ok := messageLen(a.part); ok {
			need = n
		}
		if need > messageHeaderLen+maxMessage {
			return reason.Detail{Reason: reason.FabricTrunkMessage, Expected: maxMessage, Found: uint64(need - messageHeaderLen)}
		}
		n := min(need-len(a.part), len(b))
		a.part = append(a.part, b[:n]...)
		b = b[n:]
		if n, ok := messageLen(a.part); ok && n == len(a.part) {
			part := a.part
			a.part = a.part[:0]
			if d := f(message(part[0]), part[messageHeaderLen:]); d.Reason != reason.None {
				return d
			}
		}
	}
	return reason.Detail{}
}

// messageLen is the length of the message that b begins with, if b has its header.
func messageLen(b []byte) (int, bool) {
	if len(b) < messageHeaderLen {
		return 0, false
	}
	return messageHeaderLen + int(binary.BigEndian.Uint16(b[1:])), true
}
