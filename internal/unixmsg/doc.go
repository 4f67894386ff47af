// Package unixmsg is how processes of one host talk about their devices: a
// connection over a Unix socket of type SOCK_SEQPACKET that carries messages with
// file descriptors.
//
// A message is one packet of the socket: a byte for its kind, then a body. A body
// is JSON, unless the protocol says otherwise for messages that are frequent. A
// refusal is a kind of every protocol, and ends what was asked for. The kernel
// says who the peer is.
//
// The package reads descriptors, closes those that were not taken, and frames
// messages. Each protocol defines its kinds and bodies, and whom it trusts.
package unixmsg
