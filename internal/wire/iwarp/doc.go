// Package iwarp has the formats of iWARP, the RDMA protocol suite over TCP: the
// start-up frames, framing and markers of MPA (RFC 5044, RFC 6581), the
// headers of DDP (RFC 5041), and the messages of RDMAP (RFC 5040) with their
// extensions (RFC 7306).
//
// A TCP stream of iWARP begins with a request and a reply frame (Frame). FPDUs
// follow:
//
//	+----------------+----------------------------------+-----+-------+
//	| ULPDU Length 2 | one DDP segment, the ULPDU       | pad | CRC 4 |
//	+----------------+----------------------------------+-----+-------+
//
// A DDP segment is a Segment, the header of DDP and RDMAP, and its payload.
// Lengths count from the ULPDU length field on, which a receiver reads: the header of a
// tagged segment has 16 bytes, that of an untagged one 20.
//
// The flags of the start-up frames are in frame.go, the IRD and ORD of the enhanced set-up in
// enhanced.go, and the errors of Terminates in terminate.go.
//
// The package owns layouts and names. It never panics on any input, keeps no
// state and decides nothing: the machine decides whether a value is allowed.
package iwarp
