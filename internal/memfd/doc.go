// Package memfd makes memory that other processes can map by a descriptor, and checks memory
// of other processes before it is mapped. The file cannot be truncated, because an access
// beyond its end would kill the process (SIGBUS). The caller decides which processes receive
// the descriptor.
package memfd
