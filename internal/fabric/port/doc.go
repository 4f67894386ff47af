// Package port is the link layer of one port of an InfiniBand node: its states, the credits
// of its virtual lanes, the checks of packets that arrive and leave, the order in which
// packets leave, and the counters (IBTA chapter 7).
//
// A packet stays in the buffer of the virtual lane on which it arrived until its last byte
// has left by another port of the node. Only then does the sender get its credits back. So
// pressure builds up against the flow of packets, and a cycle of full buffers is a deadlock
// as in hardware.
//
// The package does no I/O and reads no clock. It knows neither routes nor management
// packets: package node joins ports to a switch or an adapter. A port belongs to one
// goroutine at a time.
package port
