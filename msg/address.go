package msg

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"softrdma/internal/message"
	"softrdma/verbs"
)

// The errors of addresses. Connect returns them, and Config.Refused gets them at the other end.
var (
	// ErrAddress is matched by errors about bytes that are not the address of a worker.
	ErrAddress = errors.New("not a worker's address")
	// ErrVersion is matched by errors about a worker whose protocol has another version.
	ErrVersion = message.ErrVersion
	// ErrStale is matched by errors about the address of a worker that has closed.
	ErrStale = errors.New("the worker with this address has closed")
	// ErrPath is matched by the error of Connect to a worker none of whose devices has the protocol of
	// one of this worker's devices.
	ErrPath = errors.New("no devices of the same protocol")
)

// magic begins addresses and the private data of connections.
const magic = "softrdma msg"

// version is the version of the protocol. It follows the magic in every version.
const version = 3

const (
	helloLen = len(magic) + 1 + 8 + 4 + 2 + 2 + 2 + 4 + 1
	railLen  = 1 + 16 + 2 + 2
)

// A hello begins the private data of a connection's request, reply and rejection.
//
//	magic (12 bytes) | version (1) | worker (8) | eager bytes (4) | credits (2) | announced (2)
//	active messages (2) | bytes of the stream (4) | flags (1)
//
// In a request for a worker the number names the worker that the client expects, otherwise the
// sender.
type hello struct {
	worker  uint64
	accepts message.Config
}

func (h hello) bytes() []byte {
	b := append([]byte(magic), version)
	b = binary.BigEndian.AppendUint64(b, h.worker)
	b = binary.BigEndian.AppendUint32(b, uint32(h.accepts.Eager))
	b = binary.BigEndian.AppendUint16(b, uint16(h.accepts.Credits))
	b = binary.BigEndian.AppendUint16(b, uint16(h.accepts.Announced))
	b = binary.BigEndian.AppendUint16(b, uint16(h.accepts.Active))
	b = binary.BigEndian.AppendUint32(b, uint32(h.accepts.Stream))
	if h.accepts.Put {
		return append(b, helloPut)
	}
	return append(b, 0)
}

// helloPut is the bit in a hello's flags that says that the worker does not read announced messages:
// peers write them.
const helloPut = 1

// parseHello reads a hello, which may be followed by other bytes.
func parseHello(b []byte) (h hello, err error) {
	switch n := len(magic); {
	case len(b) <= n || string(b[:n]) != magic:
		return h, fmt.Errorf("%w: expected %q at its beginning", ErrAddress, magic)
	case b[n] != version:
		return h, fmt.Errorf("%w: version %d, expected %d", ErrVersion, b[n], version)
	case len(b) < helloLen:
		return h, fmt.Errorf("%w: %d bytes, expected %d", ErrAddress, len(b), helloLen)
	default:
		b = b[n+1:]
	}
	h.worker = binary.BigEndian.Uint64(b)
	c := message.Config{
		Eager: int(binary.BigEndian.Uint32(b[8:])), Credits: int(binary.BigEndian.Uint16(b[12:])), Announced: int(binary.BigEndian.Uint16(b[14:])),
		Active: int(binary.BigEndian.Uint16(b[16:])), Stream: int(binary.BigEndian.Uint32(b[18:])),
		Put: b[22]&helloPut != 0,
	}
	if b[22]&^helloPut != 0 {
		return h, fmt.Errorf("%w: unknown flags %#x", ErrAddress, b[22])
	}
	h.accepts = c
	few := min(c.Credits, c.Announced, c.Active, c.Stream, c.Eager)
	if many := max(c.Credits, c.Announced, c.Active); c.Eager > MaxEager || many > MaxUnexpected || c.Stream > MaxStream || few == 0 {
		return h, fmt.Errorf("%w: %d eager messages of %d bytes, %d announced and %d active messages, %d bytes of a stream: outside of the limits",
			ErrAddress, c.Credits, c.Eager, c.Announced, c.Active, c.Stream)
	}
	return h, nil
}

// These say what a request is for. In a rejection they say which side rejects.
const (
	toWorker   = 0 // the worker of an address
	toListener = 1 // whoever listens
	toGroup    = 2 // the worker of an address, as one of several rails
	byProgram  = 1 // not the worker itself
)

// A greeting is the private data of a connection's request, reply and rejection.
//
//	hello | how (1) | length (1) | the program's private data
type greeting struct {
	hello
	how     byte
	private []byte
}

func (g greeting) bytes() []byte {
	b := append(g.hello.bytes(), g.how, byte(len(g.private)))
	return append(b, g.private...)
}

// parseGreeting reads a greeting, which may be followed by other bytes.
func parseGreeting(b []byte) (g greeting, err error) {
	if g.hello, err = parseHello(b); err != nil {
		return g, err
	}
	b = b[helloLen:]
	if len(b) < 2 || len(b)-2 < int(b[1]) {
		return g, fmt.Errorf("%w: %d bytes of private data, which is incomplete", ErrAddress, len(b))
	}
	g.how, g.private = b[0], b[2:2+b[1]]
	return g, nil
}

// An address says where a worker listens and what it accepts.
type address struct {
	hello
	rails []railAddress // at least one
}

// A railAddress says where a worker listens on one of its devices.
//
//	protocol (1) | IP address (16) | port of the connection manager (2) | port of the device (2)
type railAddress struct {
	protocol verbs.Protocol
	listener netip.AddrPort
	udp      uint16
}

func (a *address) bytes() []byte {
	b := a.hello.bytes()
	for _, r := range a.rails {
		ip := r.listener.Addr().As16()
		b = append(append(b, byte(r.protocol)), ip[:]...)
		b = binary.BigEndian.AppendUint16(b, r.listener.Port())
		b = binary.BigEndian.AppendUint16(b, r.udp)
	}
	return b
}

func parseAddress(b []byte) (a address, err error) {
	if a.hello, err = parseHello(b); err != nil {
		return a, err
	}
	b = b[helloLen:]
	if n := len(b) / railLen; n == 0 || n > message.MaxRails || n*railLen != len(b) {
		return a, fmt.Errorf("%w: %d bytes about devices, expected %d each of 1 to %d", ErrAddress, len(b), railLen, message.MaxRails)
	}
	for ; len(b) > 0; b = b[railLen:] {
		ip := netip.AddrFrom16([16]byte(b[1:])).Unmap()
		r := railAddress{verbs.Protocol(b[0]), netip.AddrPortFrom(ip, binary.BigEndian.Uint16(b[17:])), binary.BigEndian.Uint16(b[19:])}
		a.rails = append(a.rails, r)
	}
	return a, nil
}
