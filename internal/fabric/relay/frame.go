package relay

import (
	"encoding/binary"
	"slices"

	"softrdma/internal/fabric/trunk"
	"softrdma/internal/link/fabric"
	"softrdma/internal/reason"
)

// A frame of the trunk begins with its kind. The first four bits are no 15, as those of a packet on
// lane 15, which a trunk may drop.
const (
	packetFrame  = 1 + iota // and a packet, with what fabric.Headers says in front; its level is its lane
	messageFrame            // flags, and a part of a message
	grantFrame              // lane, and the new limit in 8 bytes
)

// The flags of a part of a message.
const (
	moreParts = 1 << iota
	withRings // the message makes the rings: it had descriptors at the sender
)

const (
	packetHeader  = 1
	messageHeader = 2
	grantLen      = 1 + 1 + 8

	// partLen is the most bytes of a message in a frame.
	partLen = 4000

	// maxMessage is the length of the longest message (see attach.MaxMessage).
	maxMessage = 64 << 10
)

func appendGrant(b []byte, lane int, limit uint64) []byte {
	return binary.BigEndian.AppendUint64(append(b, grantFrame, byte(lane)), limit)
}

// A receiver takes the frames of the other process. It is a machine: it decides, and its owner
// acts.
type receiver struct {
	headers fabric.Headers
	flows   [lanes]trunk.Flow
	part    []byte         // of a message
	rings   bool           // the present message makes the rings
	packet  func(p []byte) // valid until the call returns
	message func(m []byte, rings bool)
}

// frame takes a frame, and says what is wrong with it.
func (r *receiver) frame(b []byte) reason.Detail {
	bad := reason.Detail{Reason: reason.FabricRemotePacket, Expected: uint64(r.headers.Longest()), Found: uint64(len(b))}
	if len(b) == 0 {
		return bad
	}
	switch b[0] {
	case packetFrame:
		p := b[packetHeader:]
		if len(p) < r.headers.Shortest() || len(p) > r.headers.Longest() {
			return bad
		}
		f := &r.flows[r.headers.Level(p)]
		if !f.Receive(trunk.Cost(len(p))) {
			return overrun(f)
		}
		r.packet(p)
	case messageFrame:
		return r.messagePart(b)
	case grantFrame:
		if len(b) != grantLen || b[1] >= lanes || !r.flows[b[1]].Raise(binary.BigEndian.Uint64(b[2:])) {
			return bad
		}
	default:
		return bad
	}
	return reason.Detail{}
}

func overrun(f *trunk.Flow) reason.Detail {
	return reason.Detail{Reason: reason.FabricOverrun, Expected: f.Granted, Found: f.Received}
}

// messagePart takes a part of a message.
func (r *receiver) messagePart(b []byte) reason.Detail {
	if len(b) <= messageHeader || b[1]&^(moreParts|withRings) != 0 || len(r.part)+len(b)-messageHeader > maxMessage {
		return reason.Detail{Reason: reason.FabricRemotePacket, Expected: maxMessage, Found: uint64(len(r.part) + len(b))}
	}
	f := &r.flows[control]
	if !f.Receive(trunk.Cost(len(b) - messageHeader)) {
		return overrun(f)
	}
	r.part = append(r.part, b[messageHeader:]...)
	r.rings = r.rings || b[1]&withRings != 0
	if b[1]&moreParts == 0 {
		m, rings := r.part, r.rings
		r.part, r.rings = nil, false
		r.message(m, rings)
	}
	return reason.Detail{}
}

// messageCost is what all parts of a message count.
func messageCost(n int) (sum uint64) {
	for ; n > 0; n -= partLen {
		sum += trunk.Cost(min(n, partLen))
	}
	return sum
}

// parts calls f for each frame of a message.
func parts(m []byte, rings bool, f func(frame []byte)) {
	var b [messageHeader + partLen]byte
	list := slices.Collect(slices.Chunk(m, partLen))
	for i, part := range list {
		flags := byte(0)
		if i < len(list)-1 {
			flags |= moreParts
		}
		if rings {
			flags |= withRings
		}
		f(append(append(b[:0], messageFrame, flags), part...))
	}
}
