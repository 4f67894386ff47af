// Package samehost finds the devices of other processes on this host, and connects the device
// of this process to them through shared memory.
//
// It owns the directory in which devices publish themselves, the handshake with its checks,
// the rules of trust, the connection that stays open to the peer, and the descriptors and
// mappings of each channel (link/hostmem). It sends no packet and reads no ring: the adapter
// does that between Attach and Detach. It uses queue pair numbers only to choose between
// devices that share an address.
//
// # Who is a peer
//
// Host names, boot IDs and namespaces say nothing reliable about shared memory, so it is
// tested. A device listens on a Unix socket in a directory. The socket's name contains the
// kind of frames, the address and port, and the network namespace. A device that wants to
// reach an address looks for such a name and connects. Each end passes a memfd and writes a
// random number into it. The other end maps the memfd and reports the number that it sees.
//
// An address has a meaning only within one network namespace. A device in the same namespace
// is the peer. A device in another one is the peer only if its address is neither a loopback
// or link-local address nor one of this namespace, and if no device in a third namespace has
// it as well.
//
// # Trust
//
// SO_PEERCRED identifies the peer's user; the directory's permissions are only a first
// barrier. Peers of the same user may map each other's offered segments. Peers of users listed
// in Config.Allow get only rings: no descriptor that they share can make this process wait. No
// process reads another one's memory by its address, because the pages may belong to a file or
// a process that does not answer.
//
// Names in the directory are hints that any user can make. A name of another user counts if
// the kernel has a socket of that user on the address (vouch). In other network namespaces an
// allowed user can publish any address that is free, as any host on an unauthenticated network
// can take a free IP address.
//
// # Idle devices
//
// Goroutines wait in Go's poller. No timer runs except during a handshake.
package samehost
