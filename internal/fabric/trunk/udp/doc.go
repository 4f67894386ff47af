// Package udp has the sockets of a fabric's trunks. Each peer has a socket of its own, which
// is connected: the kernel gives it packets from the peer's address alone, and packets from
// other addresses find no socket. All sockets share the local address. A Listener has the
// packets from everywhere else, and makes sockets for peers that it accepts.
//
// It moves packets and understands none: package trunk does.
package udp
