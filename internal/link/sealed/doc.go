// Package sealed encrypts what another link of UDP datagrams carries, by the PSP security protocol
// in transport mode. The owner of the link sees the datagrams of a device's address and UDP port, as without it.
// On the network they are datagrams to another port:
//
//	+----+-----+-----------+------------------------------------------+--------+
//	| IP | UDP | PSP: 16   | UDP: 8, of the device | BTH ... ICRC     | ICV 16 |
//	+----+-----+-----------+------------------------------------------+--------+
//	                       |<------------ encrypted ----------------->|
//
// An [Endpoint] has the keys of a device. Each receiver makes the keys that others use for sending to
// it, from two master keys, and gives one to each peer: an offer (offer.go), by a QUIC connection between the
// two devices (meeting.go). The connection stays open, renews keys, and by its end tells that a peer
// is gone. Packets whose SPI was not given to their source are dropped without any work
// or state for them.
//
// # When keys change
//
// A peer gets another key when it has sent so many bytes with one, and all get one when the master key changes. A
// key is valid until it was replaced twice, so a sender always has one that is valid.
package sealed

import "softrdma/internal/wire/psp"

// Overhead is how many bytes longer a sealed packet is.
const Overhead = udpLen + psp.Overhead

const udpLen = 8
