// Package mpa negotiates the set-up of an iWARP connection: MPA's start-up frames (RFC 5044
// 7.1) with the enhanced set-up (RFC 6581). It decides on CRC and markers, IRD and ORD, the
// frame that begins a peer-to-peer connection, and softrdma's own flags. It builds and checks
// frames; it keeps no time, moves no bytes and knows no queue pair.
//
// The initiator's side is in initiator.go, the responder's in responder.go.
package mpa

import (
	"encoding/binary"

	"softrdma/internal/reason"
	"softrdma/internal/wire/iwarp"
)

// A Setup is one end's view of a set-up.
type Setup struct {
	Asks Agreement // responder: the request's requirements for this end

	params   Params
	fallback bool   // an initiator continues with revision 1 if its peer knows no other
	frame    []byte // received part of the peer's frame; nil when it was read
	request  []byte // the initiator's frame, until it is answered
	head     iwarp.Frame
	enhanced iwarp.Enhanced
}

// RequestFrame returns the initiator's frame, nil after it was answered.
func (s *Setup) RequestFrame() []byte { return s.request }

// Initiator reports which side of the set-up this end is. It is valid once the peer's frame
// has arrived.
func (s *Setup) Initiator() bool { return s.head.Reply }

// Params returns this end's parameters, without private data.
func (s *Setup) Params() *Params { return &s.params }

// Fallback reports whether the initiator may try revision 1.
func (s *Setup) Fallback() bool { return s.fallback }

// Buffered returns the number of received bytes of the peer's frame.
func (s *Setup) Buffered() int { return len(s.frame) }

// ServesReads reports whether the peer has told how many READs it serves (RFC 6581 9.1).
func (s *Setup) ServesReads() bool {
	return s.isEnhanced() && s.enhanced.IRD != iwarp.DepthUnknown
}

// isEnhanced reports whether the peer's frame has the fields of RFC 6581.
func (s *Setup) isEnhanced() bool {
	return s.head.Revision >= iwarp.Revision2 && s.head.Flags&iwarp.FlagEnhanced != 0
}

func enhancedLen(e *iwarp.Enhanced) int {
	if e == nil {
		return 0
	}
	return iwarp.EnhancedLen
}

// build builds a frame.
func build(f *iwarp.Frame, e *iwarp.Enhanced, private []byte) []byte {
	f.Private = uint16(enhancedLen(e) + len(private))
	b := make([]byte, iwarp.FrameLen+enhancedLen(e), iwarp.FrameLen+int(f.Private))
	f.Put(b)
	if e != nil {
		e.Put(b[iwarp.FrameLen:])
	}
	return append(b, private...)
}

// Collect processes bytes of the peer's frame. It returns the bytes after the frame and, when
// the frame is complete, its private data. A detail means that the frame is invalid.
func (s *Setup) Collect(b []byte, reply bool) (rest, private []byte, complete bool, d reason.Detail) {
	need := iwarp.FrameLen
	if len(s.frame) >= need {
		need += int(s.head.Private)
	}
	n := min(need-len(s.frame), len(b))
	s.frame = append(s.frame, b[:n]...)
	b = b[n:]
	if len(s.frame) < need {
		return b, nil, false, reason.Detail{}
	}
	if need == iwarp.FrameLen {
		if d := s.checkHead(reply); d.Reason != reason.None {
			return nil, nil, false, d
		}
		if s.head.Private > 0 {
			return s.Collect(b, reply)
		}
	}
	private = s.frame[iwarp.FrameLen:]
	if s.isEnhanced() {
		s.enhanced.Parse(private)
		private = private[iwarp.EnhancedLen:]
	}
	if !reply {
		s.request = s.frame
	}
	s.frame = nil
	return b, private, true, reason.Detail{}
}

// Foreign returns a reason if a partial frame is TLS: a record of a handshake or, in answer to
// a request, of an alert (RFC 8446 5.1).
func (s *Setup) Foreign() reason.Detail {
	b := s.frame
	if len(b) < 4 || b[0] != 0x16 && b[0] != 0x15 || b[1] != 3 {
		return reason.Detail{}
	}
	return reason.Detail{Reason: reason.MPATLS, Expected: 0x4d504120, Found: be32(b)} // "MPA "
}

// checkHead checks the first part of a frame.
func (s *Setup) checkHead(reply bool) reason.Detail {
	if d := s.Foreign(); d.Reason != reason.None {
		return d
	}
	h := &s.head
	if f := h.Parse(s.frame); f != iwarp.FrameOK || h.Reply != reply {
		want := [2]uint64{0x20526571, 0x20526570} // " Req", " Rep"
		d := reason.Detail{Reason: reason.MPAKey, Expected: want[0], Found: be32(s.frame[6:])}
		if reply {
			d.Expected = want[1]
		}
		return d
	}
	switch {
	case h.Revision < iwarp.Revision1 || h.Revision > iwarp.Revision2:
		return reason.Detail{Reason: reason.MPARevision, Expected: iwarp.Revision2, Found: uint64(h.Revision)}
	case h.Private > iwarp.MaxPrivate:
		return reason.Detail{Reason: reason.MPAPrivate, Expected: iwarp.MaxPrivate, Found: uint64(h.Private)}
	case h.Revision == iwarp.Revision2 && h.Flags&iwarp.FlagEnhanced != 0 && h.Private < iwarp.EnhancedLen:
		return reason.Detail{Reason: reason.MPAPrivate, Expected: iwarp.EnhancedLen, Found: uint64(h.Private)}
	}
	return reason.Detail{}
}

func be32(b []byte) uint64 { return uint64(binary.BigEndian.Uint32(b)) }

// chooseRTR chooses the frame that begins a peer-to-peer connection (RFC 6581 9.2): Write,
// which needs no answer, then Read, then Send. A request without any is taken to propose
// Write, as in Linux's siw. The result is 0 if there is no common frame.
func chooseRTR(offered, have iwarp.RTR) iwarp.RTR {
	if have == 0 {
		have = iwarp.RTRWrite | iwarp.RTRRead | iwarp.RTRSend
	}
	if offered == 0 {
		offered = iwarp.RTRWrite
	}
	for _, r := range [...]iwarp.RTR{iwarp.RTRWrite, iwarp.RTRRead, iwarp.RTRSend} {
		if offered&have&r != 0 {
			return r
		}
	}
	return 0
}
