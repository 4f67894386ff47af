// Package format has the formats of what two workers tell each other outside of frames: the addresses of
// workers, the private data of connections, and the keys of regions, with what they allow. What it reads is
// hostile.
package format

import (
	"encoding/binary"
	"errors"
	"fmt"

	"softrdma/internal/message"
)

// Limits of what a worker accepts.
const (
	MaxEager      = 1 << 20 // bytes
	MaxUnexpected = 1 << 10 // messages
	MaxStream     = 1 << 30 // bytes
)

// ErrAddress is matched by errors about bytes that are not an address or private data.
var ErrAddress = errors.New("not a worker's address")

// magic begins addresses and the private data of connections.
const magic = "softrdma msg"

// version is the version of the protocol. It follows the magic in every version.
const version = 7

const helloLen = len(magic) + 1 + 8 + 4 + 2 + 2 + 2 + 4 + 1

// A Hello begins the private data of a connection's request, reply and rejection.
//
//	magic (12 bytes) | version (1) | worker (8) | eager bytes (4) | credits (2) | announced (2)
//	active messages (2) | bytes of the stream (4) | flags (1)
//
// In a request for a worker the number names the worker that the client expects, otherwise the
// sender.
type Hello struct {
	Worker  uint64
	Accepts message.Config
}

// Bytes returns the hello as it is sent.
func (h Hello) Bytes() []byte {
	b := append([]byte(magic), version)
	b = binary.BigEndian.AppendUint64(b, h.Worker)
	b = binary.BigEndian.AppendUint32(b, uint32(h.Accepts.Eager))
	b = binary.BigEndian.AppendUint16(b, uint16(h.Accepts.Credits))
	b = binary.BigEndian.AppendUint16(b, uint16(h.Accepts.Announced))
	b = binary.BigEndian.AppendUint16(b, uint16(h.Accepts.Active))
	b = binary.BigEndian.AppendUint32(b, uint32(h.Accepts.Stream))
	flags := byte(0)
	if h.Accepts.Put {
		flags |= helloPut
	}
	if h.Accepts.Progress {
		flags |= helloProgress
	}
	return append(b, flags)
}

// The bits in a hello's flags.
const (
	helloPut      = 1 << iota // the worker does not read announced messages: peers write them
	helloProgress             // the worker makes progress without its program
)

// ParseHello reads a hello, which may be followed by other bytes.
func ParseHello(b []byte) (h Hello, err error) {
	switch n := len(magic); {
	case len(b) <= n || string(b[:n]) != magic:
		return h, fmt.Errorf("%w: expected %q at its beginning", ErrAddress, magic)
	case b[n] != version:
		return h, fmt.Errorf("%w: version %d, expected %d", message.ErrVersion, b[n], version)
	case len(b) < helloLen:
		return h, fmt.Errorf("%w: %d bytes, expected %d", ErrAddress, len(b), helloLen)
	default:
		b = b[n+1:]
	}
	h.Worker = binary.BigEndian.Uint64(b)
	c := message.Config{
		Eager: int(binary.BigEndian.Uint32(b[8:])), Credits: int(binary.BigEndian.Uint16(b[12:])), Announced: int(binary.BigEndian.Uint16(b[14:])),
		Active: int(binary.BigEndian.Uint16(b[16:])), Stream: int(binary.BigEndian.Uint32(b[18:])),
		Put: b[22]&helloPut != 0, Progress: b[22]&helloProgress != 0,
	}
	if b[22]&^(helloPut|helloProgress) != 0 {
		return h, fmt.Errorf("%w: unknown flags %#x", ErrAddress, b[22])
	}
	h.Accepts = c
	few := min(c.Credits, c.Announced, c.Active, c.Stream, c.Eager)
	if many := max(c.Credits, c.Announced, c.Active); c.Eager > MaxEager || many > MaxUnexpected || c.Stream > MaxStream || few == 0 {
		return h, fmt.Errorf("%w: %d eager messages of %d bytes, %d announced and %d active messages, %d bytes of a stream: outside of the limits",
			ErrAddress, c.Credits, c.Eager, c.Announced, c.Active, c.Stream)
	}
	return h, nil
}

// These say what a request is for. In a rejection they say which side rejects.
const (
	ToWorker   = 0 // the worker of an address
	ToListener = 1 // any listener
	ToGroup    = 2 // the worker of an address, as one of several rails
	ByProgram  = 1 // not the worker itself
)

// A Greeting is the private data of a connection's request, reply and rejection.
//
//	hello | how (1) | length (1) | the program's private data
type Greeting struct {
	Hello
	How     byte
	Private []byte
}

// Bytes returns the private data.
func (g Greeting) Bytes() []byte {
	b := append(g.Hello.Bytes(), g.How, byte(len(g.Private)))
	return append(b, g.Private...)
}

// ParseGreeting reads a greeting, which may be followed by other bytes.
func ParseGreeting(b []byte) (g Greeting, err error) {
	if g.Hello, err = ParseHello(b); err != nil {
		return g, err
	}
	b = b[helloLen:]
	if len(b) < 2 || len(b)-2 < int(b[1]) {
		return g, fmt.Errorf("%w: %d bytes of private data, which is incomplete", ErrAddress, len(b))
	}
	g.How, g.Private = b[0], b[2:2+b[1]]
	return g, nil
}
