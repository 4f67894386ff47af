package explain

import "softrdma/internal/reason"

const localClause = "no clause: local to the host"

// These texts explain why two devices of one host do not use the memory path between
// them, and what it drops.
var _ = explain(map[reason.Reason]text{
	reason.HostOff: {
		"The device was opened without the memory path.",
		"The option --same-host, and the field SameHost of verbs.Config.",
		"Open the device with --same-host auto, which is the default.",
		localClause},
	reason.HostUnsupported: {
		"The memory path uses memfd_create, descriptors passed over Unix sockets, and /proc. This system is not Linux, is older than Linux 5.3, or has no /proc.",
		"`uname -r`, and whether /proc is mounted in the container.",
		"Mount /proc, or use the network path: --same-host auto does.",
		localClause},
	reason.HostFabric: {
		"Packets between two ports of a fabric go through its switches even if both ports belong to one host or process, so that tables, lanes and counters are those of the traffic.",
		"The name of the device, which begins with ib:.",
		"Open a RoCE device for peers on the same host.",
		localClause},
	reason.HostTransport: {
		"An iWARP connection is a TCP stream with its own set-up and order. Only RoCE devices use the memory path.",
		"The protocol of the device.",
		"Open a RoCE device for peers on the same host.",
		"RFC 5044 7"},
	reason.HostDirectory: {
		"Devices of one host find each other by sockets in a directory. It cannot be created or opened.",
		"SOFTRDMA_HOST_DIR; else /run/softrdma/host for root, and $XDG_RUNTIME_DIR/softrdma/host or /tmp/softrdma-host-UID for other users.",
		"Set XDG_RUNTIME_DIR to a directory of the user, or SOFTRDMA_HOST_DIR to a directory that all peers see.",
		localClause},
	reason.HostDirectoryOwner: {
		"The directory belongs neither to this user nor to root. Its owner could put sockets of other processes in place of the device's.",
		"`ls -ld` of the directory.",
		"Change its owner, or set SOFTRDMA_HOST_DIR to another directory. A shared directory may belong to any user if it has the sticky bit (mode 1777).",
		localClause},
	reason.HostDirectoryMode: {
		"The group or all users may write to the directory and it lacks the sticky bit, so they could remove or replace the device's socket.",
		"`ls -ld` of the directory.",
		"Set mode 0700 for one user, or 1777 for a directory that several users share.",
		localClause},
	reason.HostPublish: {
		"The device could not create its socket in the directory, so no peer finds it.",
		"The errno: 13 (EACCES) and 30 (EROFS) mean that the user may not write to the directory.",
		"Give the user the right to write, or set SOFTRDMA_HOST_DIR to another directory.",
		localClause},
	reason.HostUnpublished: {
		"No device in the directory has the peer's address. The peer is on another host, uses another directory, or runs without the memory path.",
		"`softrdma devices -v` at both ends, which shows the directory and the mode of each device.",
		"Nothing if the peer is on another host. Else give both ends the same SOFTRDMA_HOST_DIR; containers need that directory mounted.",
		localClause},
	reason.HostStale: {
		"A socket has the peer's address but no process listens on it. The process was killed, or the directory is shared with another host, whose sockets cannot be reached from here.",
		"Whether the peer runs, and whether the directory is on a network file system.",
		"Start the peer again: it replaces its socket. Use a directory on a local file system.",
		localClause},
	reason.HostRefused: {
		"The peer closed the connection during the handshake without a reason. It may be closing, or no softrdma device listens on the socket.",
		"The log and the state of the peer's process.",
		"Connect again once the peer's device is open.",
		localClause},
	reason.HostUser: {
		"By default only processes of the same user use the memory path. The peer runs as another user, or as one that has no number in this user namespace (65534).",
		"The users of both processes, and the option --same-host-allow at both ends.",
		"Name the other user in --same-host-allow at both ends, and use a directory that both may write to.",
		localClause},
	reason.HostAddress: {
		"A device of another user publishes the peer's address, but the kernel knows no socket of that user there. The user may have published an address that it does not have, or may be of another user namespace.",
		"Who has the address: `ss -uanpe` for RoCE v2, `ss -0anpe` for RoCE v1.",
		"Open the device of the address as the user who publishes it. The network path is used meanwhile.",
		localClause},
	reason.HostNamespace: {
		"The address is a loopback or link-local address, or one that this network namespace has itself, so packets to it do not leave the namespace. The device that publishes it is in another namespace, and therefore not the peer.",
		"`ip address` in both namespaces.",
		"Use an address that only the peer's namespace has.",
		localClause},
	reason.HostAmbiguous: {
		"Devices in several network namespaces have the peer's address, as containers in separate networks may. Which of them packets would reach is unknown here.",
		"The sockets in the directory: the end of each name has the namespace.",
		"Give containers on separate networks separate directories, or use distinct addresses.",
		localClause},
	reason.HostTimeout: {
		"The peer's process accepts no connection or does not answer. It is stopped, in a debugger, or starved of processor time.",
		"The state of the peer's process: T in `ps` means stopped.",
		"Continue the process. The network path is used meanwhile.",
		localClause},
	reason.HostVersion: {
		"The two processes have builds of softrdma with different versions of the memory path.",
		"`softrdma --version` on both sides.",
		"Use the same build on both sides, or the network path.",
		localClause},
	reason.HostMessage: {
		"A message on the socket between two devices has an unknown type, a wrong length, a wrong number of descriptors, or is out of order.",
		"Which program connects to the socket.",
		"Use the same build of softrdma on both sides.",
		localClause},
	reason.HostArea: {
		"The memory that a device of this host shares begins with another version, number of lanes or size than this device expects: the two run different versions of softrdma.",
		"The versions of both programs: `softrdma version`.",
		"Update the older one. Until then both use the network.",
		localClause},
	reason.HostMemory: {
		"A device of this host passed a descriptor that could cause a memory fault here: it is no memfd, it is not sealed against shrinking, or it is smaller than the peer has said.",
		"The version of the peer's program.",
		"Update the peer's program. Until then both use the network.",
		localClause},
	reason.HostNonce: {
		"Each end writes a random number into its shared memory, and the other end reads it there. The numbers differ: the descriptors that arrived are not those that the peer sent.",
		"Whether a proxy forwards the Unix socket.",
		"Let both processes use the directory itself.",
		localClause},
	reason.HostSameProcess: {
		"Both devices belong to one process, which has a loopback of its own for them; a device opened without the loopback wants the network.",
		"The field NoLoopback of verbs.Config.",
		"Nothing. --same-host require uses the memory path within a process too.",
		localClause},
	reason.HostLimit: {
		"A user has too many connections open or in the handshake, or a peer offers more or longer segments of memory than this process maps of it. Payloads in these go through the ring.",
		"How many processes connect to the device, and how many allocations the peer has registered.",
		"Use fewer devices, or register fewer, larger allocations.",
		localClause},
	reason.HostResources: {
		"The system refused a file descriptor or a memory mapping for a peer.",
		"`ulimit -n`, vm.max_map_count, and the memory limit of the container.",
		"Raise the limit that the errno names: 24 (EMFILE) is that of descriptors, 12 (ENOMEM) that of memory.",
		localClause},
	reason.HostClosed: {
		"The peer closed its device, exited or was killed. Packets take the network path now.",
		"Whether and how the peer's process ended.",
		"Connect again.",
		localClause},
	reason.HostGone: {
		"The device reaches this peer only through shared memory, and the peer closed its device, exited or was killed.",
		"Whether and how the peer's process ended, and the option --same-host.",
		"Start the peer and connect again. With --same-host auto the network path is used where there is one.",
		localClause},
	reason.HostRing: {
		"A message in the ring that a device of this host writes has a length, an offset or a number that no sender writes. The connection through memory has ended; packets use the network instead.",
		"Whether the peer's program overwrites memory that is not its own, and whether it runs a modified softrdma.",
		"Repair the peer's program, or use --same-host off for it.",
		localClause},
	reason.HostFull: {
		"The ring to the peer had no room for a packet. The transport sends it again.",
		"Whether the peer's process gets processor time.",
		"Nothing if it is rare. Otherwise post fewer unacknowledged messages at a time.",
		localClause},
	reason.HostStalled: {
		"The peer is alive but has taken nothing from a full ring for some time, as a stopped process. Packets to it are dropped, as a network drops them.",
		"The state of the peer's process: T in `ps` means stopped.",
		"Continue the process before the retries of its peers are used up.",
		localClause},
	reason.HostRevoked: {
		"The sender's memory could change before the peer had copied it: the queue pair was reset or failed, the region was deregistered, or the device closed. A peer that was stopped in the middle of the copy drops what it copied. The packet counts as lost.",
		"What the sender's program did with the queue pair or the region.",
		"Nothing if the sender ended the transfer on purpose. Otherwise keep both until the completion.",
		localClause},
	reason.HostReference: {
		"A message refers to a payload in shared memory that its sender does not offer (any more), or that is longer than the message may be. The message counts as lost, and a reliable connection asks for it again at once.",
		"Whether the peer deregistered the memory meanwhile; whether a program that is not softrdma speaks its protocol.",
		"Nothing if the peer has deregistered the memory. Otherwise run the same version of softrdma on both sides.",
		localClause},
})
