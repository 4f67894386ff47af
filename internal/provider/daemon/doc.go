// Package daemon is the driver of devices that a daemon serves (softrdma
// daemon, package uverbs): what package verbs asks of a device goes there as
// commands of ib_user_verbs.h, in messages on a Unix socket (package uapi), as
// those of the programs that the preloaded library is in.
//
// It owns the connections, the mappings of rings, which the daemon makes, and
// what tells of events, which are pipes. The daemon reads and writes registered
// memory by this process's number, or where it is a memfd in a mapping of its
// own. Nothing here knows the protocol that the device speaks.
//
// Where the daemon ends, so does the device: the pipe that stands for the device
// file tells, as it tells the daemon of this process's end.
package daemon
