package trunk

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"time"

	"softrdma/internal/reason"
)

// A Listener answers the Hellos of ends whose addresses it does not know in advance. It keeps
// nothing of an end until that has proved that it gets what is sent to its address, and that it has
// the secret: the connection ID in the answer follows from the address and the end's own ID by
// a key, and the next Hello names it. No answer is longer than what it answers.
type Listener struct {
	Use    Use
	Name   string // that Hellos ask for, as the name of a fabric
	Secret []byte
	Key    []byte // cannot be guessed
}

// cookieTime is how long a connection ID is valid at least. It is twice that at most.
const cookieTime = 8 * time.Second

// A Call is a Hello that may open a session.
type Call struct {
	ID  uint64 // connection ID of the own end, for Config.Random
	Far uint64 // the caller's
	Who Peer
}

// Receive takes a packet from an address. If it opens a session, it returns the call: the packet is
// then also the first one of the session's Trunk. Otherwise it may return an answer. why tells why
// the packet was refused or ignored.
func (l *Listener) Receive(now time.Duration, from []byte, packet []byte) (call *Call, answer []byte, why reason.Detail) {
	var h header
	if !h.parse(packet) || h.use != l.Use || h.kind != hello && h.version == Version {
		return nil, nil, reason.Detail{Reason: reason.FabricTrunkSession, Expected: uint64(hello), Found: uint64(len(packet))}
	}
	if h.version != Version {
		d := reason.Detail{Reason: reason.FabricTrunkVersion, Expected: Version, Found: uint64(h.version)}
		return nil, l.refuse(&h, packet, d), d
	}
	if !authentic(packet, l.Secret) {
		d := reason.Detail{Reason: reason.FabricTrunkSecret, Expected: macLen, Found: uint64(len(packet))}
		return nil, l.refuse(&h, packet, d), d
	}
	who, ok := parseHello(packet)
	if !ok {
		return nil, nil, reason.Detail{Reason: reason.FabricTrunkPacket, Expected: maxName, Found: uint64(len(packet))}
	}
	if who.Fabric != l.Name {
		d := reason.Detail{Reason: reason.FabricAbsent, Expected: 1}
		return nil, l.refuse(&h, packet, d), d
	}
	epoch := uint64(now / cookieTime)
	id := l.cookie(from, h.source, epoch)
	switch {
	case h.dest == 0:
		return nil, appendHello(nil, header{version: Version, kind: hello, use: l.Use, source: id, dest: h.source}, &Peer{Fabric: l.Name}, l.Secret), reason.Detail{}
	case h.dest == id || epoch > 0 && h.dest == l.cookie(from, h.source, epoch-1):
		return &Call{ID: h.dest, Far: h.source, Who: who}, nil, reason.Detail{}
	}
	return nil, nil, reason.Detail{Reason: reason.FabricTrunkSession, Expected: id, Found: h.dest}
}

// Refuse answers a Hello for a reason of the caller's.
func (l *Listener) Refuse(packet []byte, d reason.Detail) []byte {
	var h header
	if !h.parse(packet) {
		return nil
	}
	return l.refuse(&h, packet, d)
}

func (l *Listener) refuse(h *header, packet []byte, d reason.Detail) []byte {
	if len(packet) < farewellLen || h.kind == refusal { // an answer would be longer, or be answered
		return nil
	}
	b := make([]byte, headerLen, farewellLen)
	(&header{version: Version, kind: refusal, use: l.Use, source: 1, dest: h.source}).put(b)
	return appendReason(b, d)
}

func appendReason(b []byte, d reason.Detail) []byte {
	b = binary.BigEndian.AppendUint16(b, uint16(d.Reason))
	b = binary.BigEndian.AppendUint64(b, d.Expected)
	return binary.BigEndian.AppendUint64(b, d.Found)
}

// cookie is the connection ID for an end.
func (l *Listener) cookie(from []byte, far, epoch uint64) uint64 {
	m := hmac.New(sha256.New, l.Key)
	var b [16]byte
	binary.BigEndian.PutUint64(b[:], far)
	binary.BigEndian.PutUint64(b[8:], epoch)
	m.Write(b[:])
	m.Write(from)
	return max(1, binary.BigEndian.Uint64(m.Sum(nil)))
}

// Refusal returns why a Listener has refused the trunk's Hello, if a packet says that. It proves
// nothing, because a refusal has no code.
func (t *Trunk) Refusal(packet []byte) (d reason.Detail, ok bool) {
	var h header
	if !h.parse(packet) || h.use != t.config.Use || h.dest != t.own || t.session != nil && t.session.known {
		return d, false
	}
	if h.version != Version {
		return reason.Detail{Reason: reason.FabricTrunkVersion, Expected: Version, Found: uint64(h.version)}, true
	}
	if h.kind != refusal || len(packet) != farewellLen {
		return d, false
	}
	r := reason.Reason(binary.BigEndian.Uint16(packet[headerLen:]))
	if !r.Known() {
		return d, false
	}
	return reason.Detail{Reason: r, Expected: binary.BigEndian.Uint64(packet[headerLen+2:]), Found: binary.BigEndian.Uint64(packet[headerLen+10:])}, true
}
