// Package attach connects programs to ports of an InfiniBand fabric that another process
// runs (package live), over a Unix socket.
//
// A Port is a program's adapter port: what the subnet manager has set there ([Port.Info]),
// what changes ([Port.Watch]), the packets of queue pair 0 ([Port.SendMAD],
// [Port.HandleMAD]), and all other packets, which go by its link ([Port.Link], package
// link/fabric). One program at a time is attached to a port. When the fabric ends, its ports
// are down, and attach again to the next fabric of that name by themselves.
//
// The package owns the messages on the socket, which both sides parse here. It knows no
// machine of the fabric.
package attach
