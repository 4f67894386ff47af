// Package wire parses and writes the messages of RPC-over-RDMA version 1 (RFC 8166), the private data
// of its connections (RFC 8797), and the headers of ONC RPC calls (RFC 5531).
//
// It does no I/O. Everything that it parses may come from a hostile peer: lists, lengths and sums are
// bounded, and an error says what was expected and what was found.
package wire
