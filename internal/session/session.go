// Package session is the protocol of package rpc: the frames that two ends exchange, the credits
// of a connection, and what a server remembers so that each request is carried out once although
// connections break. It decides and does no I/O; package rpc carries out.
//
// # Slots
//
// A session has a fixed number of slots. A client takes a free slot for each call and numbers the
// calls of a slot. The server keeps the last answer of each slot. A request with the next number
// is new and acknowledges the last answer. A request with the last number is a repetition, which
// happens after a connection broke: the server sends the answer again and executes nothing. So the
// number of slots bounds the calls in flight and what the server keeps.
package session

import "errors"

// Version is the version of the frames. Ends of different versions refuse each other.
const Version = 2

// Limits of what an end may announce.
const (
	MaxFrame    = 64 << 10 // bytes of a frame
	MaxSlots    = 1 << 10
	MaxReceives = 1 << 12
	MinReceives = 8
)

// The errors of a peer that does not keep the protocol.
var (
	ErrVersion  = errors.New("the peer has another version of the protocol")
	ErrPeer     = errors.New("the peer is not an end of package rpc")
	ErrProtocol = errors.New("the peer broke the protocol")
)
