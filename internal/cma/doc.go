// Package cma connects queue pairs by IP address and port, over the communication
// managers of a set of devices (annex A11). It has ids with states, port spaces,
// address and route resolution, listeners with backlogs, look-ups of datagram
// peers, multicast groups and event channels. It is for softrdma's devices what the
// kernel's rdma_cm is for a host's adapters. Package rdmacm uses it inside a
// process, and its calls and events match the kernel's interface for other
// processes (rdma_user_cm.h).
//
// The package handles devices and numbers of queue pairs. It never creates, changes
// or reads a queue pair: InitQPAttr returns the attributes of a transition, and the
// owner of the queue pair makes it. It implements no wire protocol, which is in
// internal/cm, and opens no devices, which is the Host's task.
//
// # Ownership and locks
//
// A Manager owns all ids over one Host and has one lock for all of them. The order
// of locks is: Manager, locks of the Host, lane of a device, inbox. Calls lock the
// Manager and call devices. Devices report with their lane held, and the reports go
// to the inbox, whose lock is the innermost one. So no deadlock is possible.
//
// The next goroutine that locks the Manager handles the inbox first, so every call
// sees the current state of the ids. If no call comes, a goroutine handles it and
// ends when the inbox is empty. An idle Manager has no goroutine and needs no Close.
//
// An id belongs to its channel, holds one use of its device and one port of its
// port space, and releases all in Destroy or when its channel is closed. The
// connection remains in internal/cm without the id while its peer must be answered.
// Events are values. Destroying an id drops its queued events.
//
// # Differences from Linux's rdma_cm
//
//   - A loopback address is like any other address and has its own device.
//   - Ports below 1024 need no privilege.
//   - A backlog bounds, per device, the requests that were not accepted or rejected
//     yet. Linux bounds those that the program has not seen. Both ignore further
//     requests, which peers send again.
//   - The peer of a request is told to wait only if it sends the request again.
//   - Private data that is too long leaves an id unchanged.
//   - If a request has become void no event reports it, as with Linux, but Accept
//     returns the reason.
//   - A listener on all devices skips the devices that it cannot use.
//   - Multicast groups may also be IPv6 addresses.
package cma
