// Package memfd makes memory that other processes can map by a descriptor, and checks such
// memory of others before it is mapped. Nobody can make its file shorter: an access beyond
// the end would kill the process (SIGBUS). The caller decides who gets the descriptor.
package memfd
