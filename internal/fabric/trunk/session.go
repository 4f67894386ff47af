package trunk

import (
	"encoding/binary"
	"time"

	"softrdma/internal/reason"
)

// A session is what two ends have while they hear each other.
type session struct {
	peer uint64
	who  Peer

	sender    sender
	receiver  receiver
	assembler assembler

	heard       time.Duration // when a packet last came
	told        time.Duration // when one last left
	known       bool          // the peer has the session as well
	acknowledge bool          // a packet is to leave at once
	guids       []uint64      // of the peer, until greeted
	greeted     bool          // they were accepted
	training
}

// next returns the next packet of the stream, or an acknowledgement alone.
func (s *session) next(now time.Duration, h header) []byte {
	s.sender.expire(now)
	a := ack{awaited: s.receiver.awaited, early: s.receiver.early}
	var b []byte
	if x, number := s.sender.next(now); x != nil {
		a.number = number
		b = x.packet
	} else {
		if !s.acknowledge && now < s.told+aliveEvery {
			return nil
		}
		b = make([]byte, dataLen)
	}
	h.put(b)
	a.put(b)
	s.acknowledge, s.told = false, now
	return b
}

// receiveData takes a packet of the session.
func (t *Trunk) receiveData(packet []byte) reason.Detail {
	s := t.session
	var a ack
	if !a.parse(packet) {
		return reason.Detail{Reason: reason.FabricTrunkPacket, Expected: dataLen, Found: uint64(len(packet))}
	}
	s.heard = t.now
	s.known = true
	if !s.sender.acknowledge(t.now, &a) {
		d := reason.Detail{Reason: reason.FabricTrunkMessage, Expected: uint64(s.sender.first) + uint64(s.sender.sent), Found: uint64(a.awaited)}
		t.refuse(d)
		return d
	}
	if len(packet) == dataLen {
		return reason.Detail{}
	}
	s.acknowledge = true
	d := s.receiver.take(a.number, packet[dataLen:], func(b []byte) reason.Detail {
		return s.assembler.feed(b, t.message)
	})
	if d.Reason != reason.None {
		t.refuse(d)
	}
	return d
}

// message takes a message.
func (t *Trunk) message(m message, body []byte) reason.Detail {
	s := t.session
	bad := reason.Detail{Reason: reason.FabricTrunkMessage, Expected: uint64(frame), Found: uint64(m)}
	if s == nil || len(body) < epochLen || s.greeted == (m == nodes) {
		return bad
	}
	epoch, rest := binary.BigEndian.Uint32(body), body[epochLen:]
	switch m {
	case nodes:
		return t.receiveNodes(rest)
	case portState:
		return t.receiveState(epoch, rest)
	case linkUp:
		return t.receiveUp(epoch, rest)
	case linkDown:
		return t.receiveDown(epoch, rest)
	case frame:
		if s.up && epoch == s.epoch { // otherwise it was on its way when the link went down
			t.config.Port.Frame(t.now, rest)
		}
		return reason.Detail{}
	}
	return bad
}

// receiveNodes takes GUIDs of the peer's nodes. After the last ones the link can come up.
func (t *Trunk) receiveNodes(b []byte) reason.Detail {
	s := t.session
	if len(b)%8 != 0 || len(b) > 8*guidsInMessage || len(s.guids) > maxGUIDs {
		return reason.Detail{Reason: reason.FabricTrunkMessage, Expected: 8 * guidsInMessage, Found: uint64(len(b))}
	}
	last := len(b) < 8*guidsInMessage
	for ; len(b) > 0; b = b[8:] {
		s.guids = append(s.guids, binary.BigEndian.Uint64(b))
	}
	if !last {
		return reason.Detail{}
	}
	if d := t.config.Port.Nodes(&s.who, s.guids); d.Reason != reason.None {
		return d
	}
	s.greeted, s.guids = true, nil
	t.follow()
	return reason.Detail{}
}
