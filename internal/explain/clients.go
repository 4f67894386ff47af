package explain

import "softrdma/internal/reason"

// These texts explain what softrdma exec and softrdma daemon refuse to the programs
// that use their device.
var _ = explain(map[reason.Reason]text{
	reason.ClientUser: {
		"A program asked a daemon for its device, but the daemon does not serve the program's user.",
		"The daemon's --allow option, and the user that the program runs as.",
		"Start the daemon as the program's user, or as root with --allow USER.",
		"no clause: local to the host"},
	reason.ClientMemory: {
		"The server copies data from and to the program's memory, as an adapter would, but the operating system does not allow it.",
		"The users and groups of the server and the program, which must be the same unless the server is root with CAP_SYS_PTRACE; kernel.yama.ptrace_scope (3 forbids access); whether the program cleared PR_SET_DUMPABLE; whether both are in the same PID namespace.",
		"Run the server and the program as the same user, or the daemon as root; in a container give the daemon SYS_PTRACE and the programs' PID namespace.",
		"ptrace(2), process_vm_readv(2)"},
	reason.ClientProtocol: {
		"The program's preloaded library, or the softrdma command, comes from another build than the server.",
		"`softrdma --version` on both sides, and when the daemon was started.",
		"Restart the daemon with the same softrdma that starts the programs.",
		"no clause: local to the host"},
	reason.ClientProcess: {
		"A process sent a request over another process's connection, which it inherited or was passed.",
		"Whether the program creates processes without libc's fork.",
		"Open the device in the process that uses it.",
		"no clause: local to the host"},
	reason.ClientFile: {
		"A process uses a device file that was opened under another user or group, for example after setuid.",
		"Where the program changes its user.",
		"Open the device after the change. Linux refuses this too.",
		"no clause: local to the host"},
	reason.ClientLimit: {
		"One user's programs together hold as many of the server's file descriptors (EMFILE), memory mappings (ENOMEM) or bytes of memory (ENOMEM) as one user may. Connections, device files and event channels use descriptors; queues and memory regions use mappings. The server keeps a copy of registered memory, so a region counts as many bytes as it has pages, and pages that a process has registered several times on a device count once. One user may have half of the descriptors and mappings, and two thirds of softrdma daemon --client-memory, by default half of the memory of the system or of the server's control group.",
		"The text beside the name, which says what was too much; how many programs the user runs, which objects they hold and how much memory they register.",
		"Close some, register less, or start the server with a larger limit (`ulimit -n`, --client-memory); raise vm.max_map_count. With softrdma exec --engine program the device is in the program, and needs no copy of its memory.",
		"no clause: local to the host"},
	reason.ObjectLimit: {
		"A program created one object more than ibv_query_device says that the device has: queue pairs, queues, regions, windows, protection domains or address handles.",
		"max_qp, max_cq, max_srq, max_mr, max_mw, max_pd and max_ah of ibv_devinfo -v, and which objects the program does not destroy.",
		"Destroy what is not used, or share it: one address handle serves all messages to a destination.",
		"no clause: the limits are those of ibv_query_device"},
	reason.ClientStalled: {
		"The server copies data from and to the program's memory, and a page of it did not come in time. The request failed. Until the page comes, the server copies nothing else from or to this process. The time that a user's programs may make the server wait is limited too: half a second, which is refilled by a hundredth of the passing time.",
		"Whether the memory is a file of FUSE or a network file system, or has userfaultfd; whether the system swaps; /proc/PID/stack of the server's threads.",
		"Register memory that the kernel brings itself: anonymous memory or a memfd.",
		"userfaultfd(2)"},
	reason.ClientDescriptors: {
		"A program sent the server file descriptors with a message, and no command takes any. The system closed them, and the server did not execute the command.",
		"The program: softrdma's own libraries send none.",
		"Use the preloaded library.",
		"no clause: local to the host"},
	reason.ServerDescriptors: {
		"The server cannot open another file descriptor.",
		"`ulimit -n` of the server, and how many programs use it.",
		"Start the server with a larger limit (`ulimit -n`).",
		"no clause: local to the host"},
	reason.ServerReserve: {
		"All programs together hold three quarters of the file descriptors, memory mappings or memory that the server may have, or all of softrdma daemon --client-memory. The server keeps the rest for its own work.",
		"The text beside the name, which says what was too much; `ulimit -n` of the server, vm.max_map_count and --client-memory, and how many programs use the server.",
		"Start the server with larger limits, or use fewer rings and regions.",
		"no clause: local to the host"},
	reason.SlotUnshared: {
		"A program asked for a share of a device's address, so that the adapter runs in the program. The server has opened the device in another way, or its packets are encrypted (RoCE v2 with TLS): only the server has the keys.",
		"The device's protocol, whether it has TLS, and whether the server's program opens it with verbs.Config.Shared. softrdma exec and softrdma daemon do so.",
		"Serve another device, or let the server have the device of a C program (softrdma exec --engine daemon).",
		localClause},
	reason.SlotUser: {
		"A program that has a share of an address receives packets on a socket of the server. Only programs of the server's own user get one.",
		"The users of the server and of the program.",
		"Run the program as the server's user, or open a device on an address of its own; for a C program, let the server have the device (softrdma exec --engine daemon).",
		localClause},
	reason.SlotNetwork: {
		"A program in another network namespace than the server asked for a share of the server's address. The sockets from which it would send have other addresses and routes.",
		"Whether the program runs in a container or under `ip netns exec`.",
		"Run the program in the server's network namespace, or open a device on an address of its own; for a C program, let the server have the device (softrdma exec --engine daemon).",
		localClause},
	reason.SlotsTaken: {
		"An address can be shared by a limited number of programs at the same time.",
		"How many programs use the device. A share is free again when its program has ended or closed the device.",
		"End a program, or serve a second address.",
		localClause},
	reason.ProvidersMissing: {
		"The program's libibverbs has found no driver for softrdma's devices, so its list of devices is empty (No IB devices found). The drivers of rxe and siw are in a package of their own.",
		"Whether the package ibverbs-providers is installed, and /etc/libibverbs.d has rxe.driver. Containers often lack it.",
		"Install ibverbs-providers (Debian, Ubuntu), or the providers of rdma-core elsewhere (Fedora: libibverbs).",
		localClause},
	reason.SlotConnections: {
		"Connections are set up by queue pair 1, and an address has one. On an address that programs share it is that of the process that shares the address out.",
		"Whether the program uses rdmacm or rdmanet with a device opened as \"shared:\".",
		"Use package rdmacm with a device on an address of its own, or exchange queue pair numbers over a connection of another kind.",
		"IBTA 12.2, 13.5.3"},
	reason.CommandHandle: {
		"A command uses a handle that does not exist in its device file, or that names an object of another type.",
		"Whether the object was destroyed before, and whether another process created it: a handle is valid only in the device file that created it.",
		"Use each object with the context that created it, and before it is destroyed.",
		"IBTA 11.2"},
	reason.CommandRefused: {
		"A call on a device file has an argument that is out of range, unknown or not supported; errno says which.",
		"The text beside the name, and the call: `softrdma exec -v` prints both.",
		"Correct the argument that the text names.",
		"IBTA 11.2"},
})
