package stream

import (
	"encoding/binary"
	"fmt"

	"softrdma/rpc"
)

// A stream has five methods in its service, whose names follow from its own.
//
//	open:  answers with the number of a new stream
//	write: number (8 bytes) | position (8) | flags (1) | bytes
//	read:  number (8 bytes) | position (8) | most bytes (4); answers with flags (1) and bytes
//	hold:  number (8 bytes); is not answered until the client cancels it, or is lost
//	close: number (8 bytes)
const (
	openSuffix  = ".open"
	writeSuffix = ".write"
	readSuffix  = ".read"
	holdSuffix  = ".hold"
	closeSuffix = ".close"
)

// last says that no chunk follows.
const last = 1

// prefixLen is what comes before the bytes of a chunk that is written.
const prefixLen = 17

// parseNumber reads the number of a stream.
func parseNumber(b []byte) (uint64, error) {
	if len(b) != 8 {
		return 0, rpc.Errorf(rpc.InvalidArgument, "the number of a stream has %d bytes", len(b))
	}
	return binary.BigEndian.Uint64(b), nil
}

// A place names a chunk.
type place struct {
	stream uint64
	chunk  uint64 // from 0
}

func (p place) append(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, p.stream)
	return binary.BigEndian.AppendUint64(b, p.chunk)
}

func parsePlace(b []byte) (p place, rest []byte, err error) {
	if len(b) < 16 {
		return p, nil, rpc.Errorf(rpc.InvalidArgument, "a chunk of %d bytes, expected at least 16", len(b))
	}
	return place{binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(b[8:])}, b[16:], nil
}

// parseWrite reads a chunk that the client writes.
func parseWrite(b []byte) (p place, end bool, data []byte, err error) {
	p, rest, err := parsePlace(b)
	if err == nil && (len(rest) == 0 || rest[0] > last) {
		err = rpc.Errorf(rpc.InvalidArgument, "a chunk without flags, or with unknown ones")
	}
	if err != nil {
		return p, false, nil, err
	}
	return p, rest[0] == last, rest[1:], nil
}

// parseRead reads the wish for a chunk.
func parseRead(b []byte) (p place, most int, err error) {
	p, rest, err := parsePlace(b)
	if err == nil && (len(rest) != 4 || binary.BigEndian.Uint32(rest) == 0 || binary.BigEndian.Uint32(rest) > MaxChunk) {
		err = rpc.Errorf(rpc.InvalidArgument, "a wish for a chunk with %d bytes behind its place", len(rest))
	}
	if err != nil {
		return p, 0, err
	}
	return p, int(binary.BigEndian.Uint32(rest)), nil
}

// parseAnswer reads a chunk that the server wrote.
func parseAnswer(b []byte) (end bool, data []byte, err error) {
	if len(b) == 0 || b[0] > last {
		return false, nil, fmt.Errorf("%w: a chunk without flags, or with unknown ones", rpc.ErrProtocol)
	}
	return b[0] == last, b[1:], nil
}
