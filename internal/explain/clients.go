package explain

import "softrdma/internal/reason"

// clients explains what the server of device files refuses to programs that run
// under softrdma exec.
var clients = map[reason.Reason]text{
	reason.ClientUser: {
		"A program asks a daemon for its device whose user the daemon does not serve.",
		"The daemon's --allow, and the user that the program runs as.",
		"Start the daemon as the program's user, or as root with --allow USER.",
		"no clause: local to the host"},
	reason.ClientMemory: {
		"The server carries data from and to the program's memory, as an adapter would, and the system does not let it.",
		"The users and groups of server and program, which have to be the same unless the server is root with CAP_SYS_PTRACE; kernel.yama.ptrace_scope (3 forbids it); whether the program gave up PR_SET_DUMPABLE; whether both see the same process numbers (PID namespaces).",
		"Run server and program as one user, or the daemon as root; in containers give it SYS_PTRACE and the programs' PID namespace.",
		"ptrace(2), process_vm_readv(2)"},
	reason.ClientProtocol: {
		"The preloaded library of the program, or the softrdma command, is of another build than the server.",
		"`softrdma --version` on both sides, and since when the daemon runs.",
		"Start the daemon again with the softrdma that the programs are started with.",
		"no clause: local to the host"},
	reason.ClientProcess: {
		"A process sent a request over another process's connection: it was inherited or passed on.",
		"Whether the program makes processes without libc's fork.",
		"Open the device in the process that uses it.",
		"no clause: local to the host"},
	reason.ClientFile: {
		"A device file is used by a process of another user or group than opened it, for example after setuid.",
		"Where the program changes its user.",
		"Open the device after the change. Linux refuses it likewise.",
		"no clause: local to the host"},
	reason.ClientLimit: {
		"The programs of one user together hold half of the descriptors that the server may have (EMFILE), or of the mappings (ENOMEM): connections, device files and event channels take the former, queues and memory regions the latter.",
		"How many programs the user runs, and what they keep; `ulimit -n` of the server and vm.max_map_count.",
		"Close some, start the server with a larger limit (`ulimit -n`), or raise vm.max_map_count.",
		"no clause: local to the host"},
	reason.MemoryPrivate: {
		"A program under softrdma exec --share-memory registered memory that cannot be replaced by shared memory without its notice: it has several threads (2), the memory is not all private, anonymous, readable and writable, or is locked or part of what is shared already (3), the kernel may be writing to memory by io_uring or asynchronous I/O (4), or the system refused something (1). The region works as it does without the flag.",
		"The cause that the text beside the name tells, and when the program registers memory.",
		"Register memory before threads are started, in whole pages of one allocation; or leave the flag out.",
		"no clause: local to the host"},
	reason.MemoryShared: {
		"A program handed a descriptor in for memory that it shares with the server, and it is none that the server can map without fear: not a memfd, not sealed against shrinking, of huge pages, or shorter than the region.",
		"Who made the descriptor: softrdma's own libraries make such memory as is expected.",
		"Use verbs.AllocMemory, or memfd_create with MFD_ALLOW_SEALING and F_SEAL_SHRINK.",
		"memfd_create(2), fcntl(2)"},
	reason.ClientDescriptors: {
		"A program sent the server more descriptors with a message than any command takes. They were closed, and the command was not carried out.",
		"The program: softrdma's own libraries send one descriptor at most, with memory to be shared.",
		"Use the preloaded library or verbs.Open with a daemon's device; nothing else speaks this protocol.",
		"no clause: local to the host"},
	reason.ServerDescriptors: {
		"The server cannot open another descriptor.",
		"`ulimit -n` of the server, and how many programs use it.",
		"Start the server with a larger limit (`ulimit -n`).",
		"no clause: local to the host"},
	reason.ServerReserve: {
		"The programs of all users together hold three quarters of what the server has, of descriptors or of mappings. The rest is for its own work.",
		"`ulimit -n` of the server and `vm.max_map_count`, and how many programs use it.",
		"Start the server with larger limits, or use fewer rings and regions.",
		"no clause: local to the host"},
	reason.CommandHandle: {
		"A command names an object by a handle that its device file does not have, or that is of another type.",
		"Whether the object was destroyed before, and whether it was made by another process: handles are those of the file that made them.",
		"Use objects with the context that made them, before they are destroyed.",
		"IBTA 11.2"},
	reason.CommandRefused: {
		"A call on a device file has an argument that is out of range, unknown or not supported; errno tells which it is.",
		"The text beside the name, and the call: `softrdma exec -v` prints both.",
		"What the text names.",
		"IBTA 11.2"},
}
