// Package session is the protocol of package rpc: the frames that two ends exchange, the
// credits of a connection, and the server's memory by which each request is executed once
// although connections break. It decides and does no I/O; package rpc executes.
//
// # Slots
//
// A session has a fixed number of slots. A client uses a free slot for each call and numbers
// the calls of a slot. The server keeps the last answer of each slot. A request with the next
// number is new and acknowledges the last answer. A request with the last number is a
// repetition, which happens after a connection broke: the server sends the answer again and
// executes nothing. So the number of slots limits the calls in flight and the server's memory.
package session

import "errors"

// Version is the version of the frames. Ends of different versions refuse each other.
const Version = 2

// Limits of the values that an end may announce.
const (
	MaxFrame    = 64 << 10 // bytes of a frame
	MaxSlots    = 1 << 10
	MaxReceives = 1 << 12
	MinReceives = 8
)

// The errors of a peer that violates the protocol.
var (
	ErrVersion  = errors.New("the peer has another version of the protocol")
	ErrPeer     = errors.New("the peer is not an end of package rpc")
	ErrProtocol = errors.New("the peer violated the protocol")
)
