// Package netstack is a TCP stack of the program's own, for iWARP at a host of an Ethernet fabric: the
// system's stack has no interface there. The stack is gVisor's. The package joins it to the link of the
// port, which carries IP packets, and makes it a tcp.Network.
//
// It decides nothing that TCP decides, and has only what iWARP needs of a stack: one address and one
// interface.
package netstack
