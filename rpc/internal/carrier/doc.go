// Package carrier has the connections of package rpc: it carries the frames of sessions to peers and
// from them, keeps to the credits of each connection, reads bodies, and owns the completion queues and
// the registered memory on each device. It does not know what frames mean to a session, which implements
// Owner, and never repeats anything on another connection.
package carrier
