// Package carrier has the connections that a protocol stands on: it carries frames to peers and from
// them, keeps to the credits of each connection, reads and writes the peer's memory, and owns the
// completion queues and the registered memory on each device. It knows no protocol, which implements
// Owner, and never repeats anything on another connection.
package carrier
