// Package rdmacm connects RDMA queue pairs by IP addresses and ports, as
// librdmacm does. It uses the communication manager of InfiniBand (IBTA chapter 12)
// with the IP addressing of annex A11, over RoCE v2. The peer can be any program
// that uses librdmacm, the kernel's rdma_cm or this package.
//
// # The Go interface
//
// A server listens and accepts, and a client dials. Both get a [Conn] with a queue
// pair in RTS:
//
//	l, err := rdmacm.Listen("192.0.2.1:7471", rdmacm.ListenConfig{})
//	c, err := l.Accept(ctx)
//
//	c, err := rdmacm.Dial(ctx, "192.0.2.1:7471", rdmacm.Dialer{})
//	err = c.QP().PostSend(…)
//
// A program that must register memory and post receives before the peer can send
// uses separate steps. [Dialer.Resolve] returns an [Endpoint], whose queue pair is in
// INIT, and [Endpoint.Connect] makes the connection. On the other side
// [Listener.Request] returns a [Request] to accept or reject.
//
// # The librdmacm interface
//
// An [EventChannel] receives the events of its [ID]s. Each call of an ID starts an
// operation, and an event reports its result: Bind, ResolveAddr, ResolveRoute,
// CreateQP, Connect, Listen, Accept, Reject, Disconnect, Destroy. The events have
// librdmacm's names, so a program for librdmacm can be ported line by line.
//
// # Devices
//
// An id finds its device through the host's routing, like a socket. The device is
// that of the local address from which the destination is reached. It is opened on
// first use and closed with its last id. If the program itself opened a device on the
// address (verbs.Open), ids share it.
//
// An address has only one device. If a client to an address of this machine used it,
// it could take the address of a server in another process. So, unless the client
// names a local address, it gets its own device: the server's address with a random
// UDP port, or for a server on 127.0.0.1 a random free address of 127.0.0.0/8. If this
// process already has the device of the usual address open, the client uses that.
//
// The path MTU is the largest that the device, the route and a local destination's
// interface support. If the peer's device has a smaller one, its rejection says so,
// and the request is repeated with that MTU.
//
// # iWARP
//
// The same code connects over iWARP, with a Device of verbs.OpenIWARP or with
// Protocol in [Dialer] and [ListenConfig]. It supports only
// PortSpaceTCP. Ports are the host's TCP ports, and any number of processes can share
// an address. Connections are TCP streams, which causes these differences:
//
//   - The queue pair moves to RTS by itself when the connection is established, and
//     to ERR when the stream ends. The program does neither. There is no
//     EventConnectResponse and no EventTimewaitExit.
//   - If nothing listens on the port, Dial is rejected at once, with the same reason
//     as over RoCE.
//   - If the peer dies, TCP reports it and the connection ends.
//   - SENDs and WRITEs complete when the system's TCP has taken them. Disconnect,
//     Close and the end of the program still deliver completed data.
//
// Private data has the same limits and padding as on RoCE. TLS in Dialer and
// ListenConfig encrypts the connections: devices that are opened for them use TLS,
// with one configuration for each address (SecurityError).
//
// # Timeouts
//
// A request is retransmitted as in Linux: 15 times, 4.3 s apart. So it takes more than
// a minute until a peer that does not answer is given up. Calls that wait take a
// context; when it ends they return at once and release everything. Give it a
// deadline.
//
// # What it never does
//
// The package implements no rules of the protocol, which are in internal/cm and
// internal/cma. Like librdmacm in user space it moves queue pairs through their
// states, and it gives ids and connections a Go interface.
package rdmacm
