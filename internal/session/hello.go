package session

import (
	"encoding/binary"
	"fmt"
)

// magic begins the private data of connections.
const magic = "softrdma rpc"

// An ID names a session. It is random, and only the two ends know it.
type ID [16]byte

// A Hello is the private data of a request for a connection and of its reply.
//
//	magic (12) | version (1) | kind (1) | id (16) | frame (4) | receives (2) | slots (2) | body (8) | [ bytes (8) ]
type Hello struct {
	Resume   bool   // in a request: the session exists
	ID       ID     // of the session; in a reply of the server's process
	Frame    uint32 // longest frame in bytes that the sender accepts
	Receives uint16 // frames that the sender can receive at a time on this connection
	Slots    uint16 // in a request the wanted number, in a reply the granted one
	Body     uint64 // longest body in bytes that the sender accepts
	Bytes    uint64 // in a reply: maximum of bytes of far request bodies in flight
}

const (
	helloNew = iota
	helloResume
	helloReply
	helloRefusal
)

const (
	prefixLen  = len(magic) + 2
	requestLen = prefixLen + 16 + 4 + 2 + 2 + 8
	replyLen   = requestLen + 8
)

func prefix(kind byte) []byte { return append([]byte(magic), Version, kind) }

// Request returns the bytes of a request, at most rdmacm.MaxPrivateRequest.
func (h *Hello) Request() []byte {
	kind := byte(helloNew)
	if h.Resume {
		kind = helloResume
	}
	return h.append(prefix(kind))
}

// Reply returns the bytes of a reply.
func (h *Hello) Reply() []byte {
	return binary.BigEndian.AppendUint64(h.append(prefix(helloReply)), h.Bytes)
}

func (h *Hello) append(b []byte) []byte {
	be := binary.BigEndian
	b = append(b, h.ID[:]...)
	b = be.AppendUint32(b, h.Frame)
	b = be.AppendUint16(b, h.Receives)
	b = be.AppendUint16(b, h.Slots)
	return be.AppendUint64(b, h.Body)
}

// kindOf checks the prefix of private data.
func kindOf(b []byte) (byte, error) {
	switch n := len(magic); {
	case len(b) < prefixLen || string(b[:n]) != magic:
		return 0, fmt.Errorf("%w: expected %q at the beginning of its private data", ErrPeer, magic)
	case b[n] != Version:
		return 0, fmt.Errorf("%w: version %d, expected %d", ErrVersion, b[n], Version)
	default:
		return b[n+1], nil
	}
}

// ParseRequest reads a request, which may be followed by other bytes. The error matches ErrPeer,
// ErrVersion or ErrProtocol.
func ParseRequest(b []byte) (h Hello, err error) {
	kind, err := kindOf(b)
	switch {
	case err != nil:
		return h, err
	case kind != helloNew && kind != helloResume:
		return h, fmt.Errorf("%w: private data begins with %#02x, expected a request", ErrProtocol, kind)
	case len(b) < requestLen:
		return h, fmt.Errorf("%w: %d bytes of private data, expected %d", ErrProtocol, len(b), requestLen)
	}
	h.Resume = kind == helloResume
	return h, h.parse(b)
}

// ParseReply reads a reply, as ParseRequest.
func ParseReply(b []byte) (h Hello, err error) {
	kind, err := kindOf(b)
	switch {
	case err != nil:
		return h, err
	case kind != helloReply:
		return h, fmt.Errorf("%w: private data begins with %#02x, expected a reply", ErrProtocol, kind)
	case len(b) < replyLen:
		return h, fmt.Errorf("%w: %d bytes of private data, expected %d", ErrProtocol, len(b), replyLen)
	}
	h.Bytes = binary.BigEndian.Uint64(b[requestLen:])
	return h, h.parse(b)
}

func (h *Hello) parse(b []byte) error {
	be := binary.BigEndian
	b = b[prefixLen:]
	h.ID = ID(b)
	h.Frame, h.Receives, h.Slots, h.Body = be.Uint32(b[16:]), be.Uint16(b[20:]), be.Uint16(b[22:]), be.Uint64(b[24:])
	if h.Frame < HeaderLen || h.Frame > MaxFrame || h.Receives < MinReceives || h.Receives > MaxReceives || h.Slots == 0 || h.Slots > MaxSlots {
		return fmt.Errorf("%w: %d slots, %d frames of %d bytes: outside of the limits", ErrProtocol, h.Slots, h.Receives, h.Frame)
	}
	return nil
}

// A Cause is the reason why a server refuses a connection.
type Cause uint8

// The causes.
const (
	CauseVersion  Cause = iota + 1
	CauseUnknown        // no session with this ID
	CauseFull           // too many sessions or connections
	CauseDraining       // the server is shutting down
	CauseMoved          // another address serves
	CauseProtocol       // the request is malformed
	causes
)

// A Refusal is the private data of a rejection.
type Refusal struct {
	Cause   Cause
	Address string // of CauseMoved, at most MaxAddress bytes
}

// MaxAddress is the longest address in a Refusal and in a Leave frame.
const MaxAddress = 100

// Bytes returns the refusal as private data.
func (r *Refusal) Bytes() []byte {
	b := append(prefix(helloRefusal), byte(r.Cause), byte(len(r.Address)))
	return append(b, r.Address...)
}

// ParseRefusal reads a refusal, which may be followed by other bytes.
func ParseRefusal(b []byte) (r Refusal, err error) {
	kind, err := kindOf(b)
	if err != nil {
		return r, err
	}
	if kind != helloRefusal || len(b) < prefixLen+2 {
		return r, fmt.Errorf("%w: private data begins with %#02x, expected a rejection", ErrProtocol, kind)
	}
	b = b[prefixLen:]
	r.Cause = Cause(b[0])
	n := int(b[1])
	if b = b[2:]; r.Cause == 0 || r.Cause >= causes || n > MaxAddress || n > len(b) {
		return r, fmt.Errorf("%w: a refusal with cause %d and an address of %d bytes", ErrProtocol, r.Cause, n)
	}
	r.Address = string(b[:n])
	return r, nil
}
