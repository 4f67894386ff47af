// Package rdmacm connects RDMA queue pairs by IP addresses and ports, as
// librdmacm does: the communication manager of InfiniBand (IBTA chapter 12)
// with the IP addressing of annex A11, over RoCE v2. The other end is any
// program on librdmacm or the kernel's rdma_cm, or another one on this package.
//
// # Go's manners
//
// A server listens and accepts, a client dials; both get a [Conn] whose queue
// pair is in RTS:
//
//	l, err := rdmacm.Listen("192.0.2.1:7471", rdmacm.ListenConfig{})
//	c, err := l.Accept(ctx)
//
//	c, err := rdmacm.Dial(ctx, "192.0.2.1:7471", rdmacm.Dialer{})
//	err = c.QP().PostSend(…)
//
// Who must register memory and post receives before the peer can send takes
// the steps one by one: [Dialer.Resolve] gives an [Endpoint], a queue pair made
// there stands in INIT, and [Endpoint.Connect] makes the connection; on the
// other side [Listener.Request] gives a [Request] to accept or reject.
//
// # As librdmacm has it
//
// An [EventChannel] takes the events of its [ID]s, whose calls start what an
// event ends: Bind, ResolveAddr, ResolveRoute, CreateQP, Connect, Listen,
// Accept, Reject, Disconnect, Destroy. Names of events are librdmacm's. A
// program written for librdmacm goes over line by line.
//
// # Devices
//
// An id finds its device by the host's routing, like a socket: the local
// address from which the destination is reached is the device, which is opened
// when it is first wanted and closed with the last id on it. A device that the
// program opened itself (verbs.Open) on that address is found and shared.
//
// A client to an address of this machine that names no local one gets a device
// of its own: since one address is one device, it would otherwise take the
// address of a server that another process has, or wants to start. It is the
// address that the server has with a random UDP port, for a server on 127.0.0.1
// a random free address of 127.0.0.0/8, unless this process has the device of
// the usual address open.
//
// The path MTU is the largest that the device, the route and an own address's
// interface have room for. Where the peer's device has less, its rejection says
// so, and the connection is asked for again with that.
//
// # iWARP
//
// The same code connects over iWARP: by a Device opened as "iwarp:eth0"
// (verbs.Open), or by Protocol in [Dialer] and [ListenConfig], in PortSpaceTCP
// alone. Ports are the host's TCP ports then, and any number of processes can
// have one address. What is different lies in iWARP, where connections are
// streams of TCP:
//
//   - The queue pair goes to RTS by itself when the connection stands, and to
//     ERR when the stream ends: the program moves neither. There is no
//     EventConnectResponse and no EventTimewaitExit.
//   - A peer's host on which nobody listens says so: Dial is rejected at once,
//     with the reason that RoCE has for a port without listener.
//   - A peer that dies ends the connection, as TCP tells of it.
//   - SENDs and WRITEs complete when TCP has taken them. Disconnect and Close
//     still deliver what has completed.
//
// Private data is bounded and filled up as on RoCE. TLS in Dialer and
// ListenConfig makes the connections TLS: the devices that are opened here are
// opened with it, one configuration for an address (SecurityError).
//
// # Devices of a daemon
//
// Connections on a device of a daemon's (verbs.Open) are the same: name it, as
// Dialer.Device, ListenConfig.Device or by UseDevice. The ports are the
// daemon's then, which all programs on it share. Listeners on every address
// listen on the devices of this process alone.
//
// # How long things take
//
// Requests are sent again as Linux does it: 15 times, each time 4.3 s after
// the last, so a peer that does not answer is given up after more than a
// minute. Calls that wait take a context, which ends them at once and leaves
// nothing behind: give one a deadline.
//
// # What it never does
//
// The package holds no rule of the protocol, which are those of internal/cm and
// internal/cma. It moves queue pairs through their states, as librdmacm's user
// space does, and gives ids and connections the shape of Go.
package rdmacm
