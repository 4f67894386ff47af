// Package memfd makes memory that other processes can map by a descriptor, and checks such
// memory of others before it is mapped. Nobody can make its file shorter: an access beyond
// the end would kill the process (SIGBUS). It decides nothing about who gets it.
package memfd
