// Package fabric is the link between a program and a port of an InfiniBand fabric in another
// process. It carries packets from LRH to ICRC. The fabric's process adds and removes the
// VCRC.
//
// The two communicate through rings in shared memory (package hostmem), one for each service
// level and direction, so that a stopped service level does not block another. A message in a
// ring is one or more packets of equal size. Nothing is lost between a program and its port: a
// sender that finds a ring full waits until the other side has made room.
//
// The package never decides where a packet goes, and never trusts what the other side wrote.
// Package attach connects a Link to a port.
package fabric

import "softrdma/internal/link"

// Levels is the number of service levels.
const Levels = 16

// maxFrame is the length of the longest packet without its VCRC.
const maxFrame = 4096 + 124

// maxEthernet is the length of the longest frame of Ethernet, or payload of a datagram.
const maxEthernet = 9022

// capabilities are the same for every Link.
var capabilities = link.Capabilities{
	Packets: link.MaxPackets, Bytes: link.MaxBatch, Frame: maxFrame, ReceiveBuffer: 1 << 20, Segmentation: true, Lossless: true,
}
