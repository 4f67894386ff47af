// Package psp has the formats of the PSP Security Protocol (PSP Architecture Specification,
// version 1.0): the header of a packet, the keys that are derived from a device's master keys,
// the encryption of packets, and the window that refuses packets which come again.
//
// In transport mode a PSP packet stands between the IP header and the transport header of the packet
// that it protects:
//
//	+----+-----+------------+----------------------+-----------------------------+--------+
//	| IP | UDP | PSP header | cookie, if there is  | transport header and data   | ICV 16 |
//	|    | 8   | 16         | one: 8               |                             |        |
//	+----+-----+------------+----------------------+-----------------------------+--------+
//	           |<------- authenticated -------->|<--------- encrypted ---------->|
//
// Encryption begins at the crypt offset, which counts from the end of the 16 bytes.
//
// A receiver holds no state for each sender: it derives the key of a packet from the packet's SPI and a
// master key of its own. It gives SPI and key to a sender by other means.
//
// The package never panics on any input and decides nothing.
package psp
