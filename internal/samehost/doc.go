// Package samehost finds the devices of other processes on this host, and connects the
// device of this process to them through shared memory.
//
// It owns the directory in which devices publish themselves, the handshake with its checks,
// the rules of trust, the connection that stays open to the peer, and the descriptors and
// mappings of each channel (link/hostmem). It sends no packet and reads no ring: the
// adapter does, from Attach to Detach. Of queue pairs it knows only which of the devices that
// share an address their numbers belong to.
//
// # Who is a peer
//
// Host names, boot IDs and namespaces say nothing reliable about shared memory, so it is
// tested. A device listens on a Unix socket in a directory. Its name has the kind of frames,
// the address and port, and the network namespace. A device that wants to reach an address
// looks for such a name and connects. Each end passes a memfd and writes a random number
// into it. The other end maps the memfd and says which number it sees there.
//
// An address means something in one network namespace only. A device in the same namespace
// is the peer. A device in another one is the peer only if its address is neither a
// loopback or link-local address nor one of this namespace, and if no device in a third
// namespace has it as well.
//
// # Trust
//
// SO_PEERCRED says who the peer is; the directory's permissions are only a first barrier.
// Peers of the same user may map each other's offered segments. Peers of users that
// Config.Allow names have rings and nothing else: no descriptor that they share can make
// this process wait. No process reads another one's memory by its address: the pages may be
// those of a file or a process that does not answer.
//
// Names in the directory are hints that anybody may give. A name of
// another user counts if the kernel has a socket of that user on the address (vouch). In
// other network namespaces an allowed user can publish any address that is free, as any host
// on an unauthenticated network can take a free IP address.
//
// # Idle devices
//
// Goroutines wait in Go's poller. No timer runs except during a handshake.
package samehost
