// Package cma makes connections by IP address and port: ids with their states,
// port spaces, address and route resolution, listeners with backlogs, look-ups
// of datagram peers, multicast groups and event channels, over the
// communication managers of a set of devices (annex A11). It is to the devices
// of softrdma what the kernel's rdma_cm is to a host's adapters: package rdmacm
// stands on it in a process, and its calls and events are those of the kernel's
// interface for other processes (rdma_user_cm.h).
//
// It knows devices and numbers of queue pairs. It never makes, changes or looks
// at a queue pair: InitQPAttr tells what the transitions of one want, and who
// owns it makes them. It speaks no protocol either, which is internal/cm's, and
// opens no device, which its Host does.
//
// # Who owns what
//
// A Manager is all ids over one Host, and one lock for all of them. The order of
// locks is Manager, then whatever the Host takes, then a device's lane, then the
// inbox: calls take the Manager and call devices; devices report with their lane
// held, and what they report goes to the inbox, under a lock that nothing is
// done with. So no call can wait for one that waits for it.
//
// The next goroutine that takes the Manager serves the inbox, before
// anything else, so that every call finds the ids as their peers have made them.
// If nobody comes by, a goroutine does it that ends when the inbox is empty: an
// idle Manager has none, and there is no end to be told to it.
//
// An id is its channel's, holds one use of its device and one place in its port
// space, and gives all up in Destroy or when its channel is closed. The
// connection below it goes on in internal/cm without it as long as its peer
// must be answered. Events are values; those of an id that nobody has taken are
// gone with it.
//
// # Where this differs from Linux's rdma_cm
//
//   - The loopback is an address like any other, with a device of its own.
//   - Ports below 1024 want no privilege.
//   - A backlog bounds the requests that are not accepted or rejected yet, on
//     each device; Linux's those that the program has not heard of. Requests
//     beyond it are ignored by both, and come again.
//   - The peer of a request is told to wait only if it asks twice.
//   - Private data that is too long leaves an id as it was.
//   - A request that has become void meanwhile is not told by an event, as with
//     Linux, but Accept says why.
//   - A listener on all devices leaves out those that cannot be had.
//   - Groups may be IPv6's as well.
package cma
