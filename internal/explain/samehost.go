package explain

import "softrdma/internal/reason"

// samehost explains why two devices of one host do not, or no longer, talk through shared
// memory.
var samehost = map[reason.Reason]text{
	reason.HostArea: {
		"The memory that a device of this host shares begins with another version, number of lanes or size than this device expects: the two run different versions of softrdma.",
		"The versions of both programs: `softrdma version`.",
		"Update the older one. Until then both use the network.",
		"no clause: local to the host"},
	reason.HostRing: {
		"A message in the ring that a device of this host writes has a length, an offset or a number that no sender writes. The connection through memory has ended; packets use the network instead.",
		"Whether the peer's program overwrites memory that is not its own, and whether it runs a modified softrdma.",
		"Repair the peer's program, or use --same-host off for it.",
		"no clause: local to the host"},
	reason.HostMemory: {
		"A device of this host passed a descriptor that could cause a memory fault here: it is no memfd, it is not sealed against shrinking, or it is smaller than the peer has said.",
		"The version of the peer's program.",
		"Update the peer's program. Until then both use the network.",
		"no clause: local to the host"},
}
