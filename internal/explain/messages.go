package explain

import (
	"regexp"

	"softrdma/internal/reason"
)

// Message is the kind of the sentences that programs and the kernel print for a failure that has no number of
// libibverbs.
const Message Kind = "message"

// A message explains a sentence.
type message struct {
	pattern func() *regexp.Regexp
	name    string // the sentence, without what varies
	meaning string
	text
}

// says matches a sentence in any case.
func says(pattern string) func() *regexp.Regexp { return compiled(`(?i)` + pattern) }

// The same advice serves several programs.
var (
	noDevice = text{"libibverbs finds no RDMA device, or not the one that was asked for.",
		"`ibv_devices`, `rdma link`, the program's option for the device; in a container whether /dev/infiniband is there.",
		"Name a device that ibv_devices lists; without hardware run the program with softrdma (`softrdma exec`, `softrdma env`).", "ibv_get_device_list(3)"}
	memlock = text{"RLIMIT_MEMLOCK limits how much memory an adapter may pin. softrdma pins none.",
		"`ulimit -l` of the program itself: batch systems, systemd and containers set their own.", "Set it to unlimited: limits.d, LimitMEMLOCK=infinity, docker --ulimit memlock=-1.", "setrlimit(2)"}
	noServer = text{"The TCP connection over which the two ends exchange their addresses failed: the server does not run, listens elsewhere, or a firewall is between.",
		"Whether the server was started first, its port (18515 for perftest and the pingpongs), name resolution.", "Start the server, then the client; open the port.", "no clause: the program's own connection"}
	peerEnded = text{"The program at the other end stopped during the exchange, usually with an error of its own.",
		"The output of the other end, which has the cause.", "Fix what the other end reports. Use the same version and options on both ends.", "no clause: the program's own connection"}
)

// messages holds the sentences, the most specific of a program first.
var messages = []message{
	{says(`no ib devices found|failed to get ib devices list|unable to find the infiniband/roce device|ib device \S+ not found|net/ib ?: no device found|no usable transports/devices|no device found`),
		"no RDMA device found", "The program found no RDMA device.", noDevice},
	{says(`no userspace device-specific driver found`), "no userspace device-specific driver found",
		"libibverbs has no provider library for a device that the kernel has.", text{"The provider's package is missing, or LD_LIBRARY_PATH hides it.",
			"/etc/libibverbs.d and the directory libibverbs of the libraries; the device's driver.", "Install ibverbs-providers (Debian) or libibverbs (Fedora).", "libibverbs"}},
	{says(`couldn't open config directory|couldn't load driver '`), "couldn't load driver",
		"libibverbs cannot load a provider library.", text{"The library of another version, or a file that is missing: in a container often the host's libraries beside the image's.",
			"`ldd` on the library that the message names.", "Install rdma-core and its providers from one source.", "libibverbs"}},
	{says(`does not support the kernel abi|kernel abi version`), "does not support the kernel ABI",
		"Provider library and kernel driver are of different generations.", text{"A vendor's driver beside a distribution's libraries, or the reverse.",
			"Versions of rdma-core and of the driver (`modinfo`).", "Use both from the vendor, or both from the distribution.", "libibverbs"}},
	{says(`rlimit_memlock|max locked memory|locked memory limit|lock(ed)? .*memory.*(limit|failed)|failed to initialize while trying to allocate some locked memory`),
		"locked memory limit", "The limit of locked memory is too low for an adapter.", memlock},
	{says(`couldn't (connect to|listen to port)|unable to (init the socket connection|set up socket connection|perform rdma_client function)`), "couldn't connect",
		"The two programs do not reach each other.", noServer},
	{says(`failed to exchange data between server and clients|couldn't read remote address|ethernet_read_keys|unable to (read|write) (to|from) socket/rdma_cm|failed to negotiate parameters`),
		"failed to exchange data", "The other end went away while the ends exchanged their parameters.", peerEnded},
	{says(`incompatibility issue with gid types`), "incompatibility with GID types",
		"The two ends use GIDs of different kinds.", text{"One end uses IPv4 or RoCE v2, the other IPv6 or RoCE v1.",
			"The GID index of both ends (-x), and the type of the GID (show_gids).", "Choose indices of the same type and IP version.", "annex A17"}},
	{says(`couldn't allocate mrs?\b|failed to create mr`), "couldn't allocate MR",
		"ibv_reg_mr failed.", memlock},
	{says(`couldn't post (send|recv)|function ibv_post_(send|recv) failed`), "couldn't post",
		"ibv_post_send or ibv_post_recv failed.", text{"The queue is full or the queue pair is in the error state, usually because the connection has failed.",
			"The first completion with an error, and the other end.", "Fix the first error; use a smaller depth.", "ibv_post_send(3)"}},
	{says(`couldn't create (a receiver )?cq|couldn't create srq|couldn't create qp|unable to create qp|couldn't create ib resources`), "couldn't create a queue",
		"The device refused a queue of the size asked for.", text{"A depth or number of entries beyond the device's, or no memory that may be locked.",
			"max_cqe, max_qp_wr and max_sge of ibv_devinfo -v; `ulimit -l`.", "Ask for smaller queues.", "ibv_create_qp(3)"}},
	{says(`unexpected cm event|unable to connect the hca's through the link`), "unexpected CM event",
		"The connection manager reported a failure instead of the next step.", text{"The server does not listen on the address or port, or rejected the request.",
			"The event's name or number, and the server.", "Start the server with the same options (-R on both ends).", "rdma_get_cm_event(3)"}},
	{says(`requested mtu is higher than active mtu`), "requested MTU is higher than active MTU",
		"The program wants a larger path MTU than the port has.", text{"The interface's MTU is smaller.",
			"active_mtu of ibv_devinfo.", "Leave the option out, or raise the interface's MTU.", "IBTA 11.2.5.2"}},
	{says(`conflicting cpu frequency values detected`), "conflicting CPU frequency values",
		"The clock of the processor varies; the program's times may be inexact. It is no failure.", text{"Power saving.", "Nothing.", "perftest's option -F leaves the check out.", "no clause: perftest's own rule"}},
	{says(`network device '[^']+' is not available`), "network device is not available",
		"UCX does not find the device that UCX_NET_DEVICES names.", text{"The name or port is wrong, the port is down, or the program sees other devices.",
			"The list in the same message, and `ucx_info -d`.", "Use a name from the list, such as rxe0:1.", "UCX_NET_DEVICES"}},
	{says(`no (active messages|remote registered memory access|tag|stream|auxiliary|.{1,30}) transport to .*(unsupported operation|destination is unreachable|not |no )`), "no transport to the peer",
		"UCX finds no transport that both ends share.", text{"UCX_TLS or UCX_NET_DEVICES exclude what is needed, the subnets differ, or one end has no RDMA device.",
			"The reasons behind each transport in the message; UCX_TLS on both ends.", "Allow rc or ud and self, or tcp beside them.", "UCX_TLS"}},
	{says(`endpoint timeout|connection (reset by remote peer|timed out).*ucx|ucx.*(endpoint is not connected|connection reset by remote peer)`), "UCX endpoint failed",
		"The connection to a UCX peer failed.", text{"The peer's process ended, or the path to it failed.", "The peer's log and the first UCX error in the output.", "Fix the first error.", "ucp_ep_create"}},
	{says(`error initializing an openfabrics device|no preset parameters were found for the device|btl_openib|mca_btl_openib`), "Open MPI's openib",
		"Open MPI's old component openib does not serve the device. UCX usually does.", text{"Open MPI before 5 tries openib where UCX is not used or does not know the device.",
			"`ompi_info | grep ucx`, and whether --mca pml ucx works.", "Run with --mca pml ucx --mca btl ^openib.", "Open MPI"}},
	{says(`fi_getinfo[^a-z].*(-61|no data available)|fi_getinfo: (-61|no data)`), "fi_getinfo: no data available",
		"libfabric finds no provider that offers what the program asks for.", text{"The verbs provider needs an RDMA device with an IP address, and rdma_cm; rdm endpoints need verbs;ofi_rxm.",
			"`fi_info -p verbs`, FI_LOG_LEVEL=info.", "Ask for msg endpoints or \"verbs;ofi_rxm\", and check the address.", "fi_getinfo(3)"}},
	{says(`got completion with error:|dump error cqe|cqe dump|error cqe`), "an adapter dumps a completion with an error",
		"mlx5 printed a completion with an error. The next lines have its bytes.", text{"The program's message has the status.",
			"The line of the program.", "Look up the status.", "mlx5"}},
	{says(`nvme nvme\d+: rdma connection establishment failed|nvme.*connect rejected|nvmet_rdma: .*reject`), "NVMe over RDMA: connection failed",
		"A host could not connect to an NVMe target over RDMA.", text{"The target does not listen on the address, does not know the host or subsystem, or refuses the queue sizes.",
			"The target's log, and the number in the message (a reject reason or an errno).", "Correct address, port and NQN, and allow the host.", "NVMe over Fabrics RDMA transport"}},
	{says(`rpcrdma: connection to .* closed|svcrdma: .*(error|fail)`), "NFS over RDMA: connection closed",
		"The connection of NFS over RDMA has ended; the kernel connects again.", text{"The peer went away, or refused an operation.", "The number in the message and the server's log.", "Fix the status that the message names.", "RFC 8166"}},
	{says(`ibv_query_gid.* failed|failed to get sgid of index|couldn't get local (lid|gid)|invalid gid index`), "no such GID",
		"The GID index has no address.", text{"The index is out of range or its entry is empty: the interface has no address, or it was added later.",
			"The GID table (ibv_devinfo -v).", "Give an index that has a GID (-g, -x, NCCL_IB_GID_INDEX, UCX_IB_GID_INDEX).", "ibv_query_gid(3)"}},
}

// eventPhrases are libibverbs' sentences for asynchronous events (ibv_event_type_str), which NCCL, UCX and others
// print.
var eventPhrases = []struct {
	pattern func() *regexp.Regexp
	name    string
}{
	{says(`local work queue catastrophic error`), "IBV_EVENT_QP_FATAL"},
	{says(`invalid request local work queue error`), "IBV_EVENT_QP_REQ_ERR"},
	{says(`local access violation work queue error`), "IBV_EVENT_QP_ACCESS_ERR"},
	{says(`path migration request error`), "IBV_EVENT_PATH_MIG_ERR"},
	{says(`srq catastrophic error`), "IBV_EVENT_SRQ_ERR"},
	{says(`\blocal catastrophic error`), "IBV_EVENT_DEVICE_FATAL"},
	{says(`async.*\bcq error`), "IBV_EVENT_CQ_ERR"},
	{says(`async.*\bport error`), "IBV_EVENT_PORT_ERR"},
	{says(`async.*\bgid table change`), "IBV_EVENT_GID_CHANGE"},
	{says(`async.*\blid change`), "IBV_EVENT_LID_CHANGE"},
	{says(`async.*\bp_?key change`), "IBV_EVENT_PKEY_CHANGE"},
	{says(`async.*\bsm change`), "IBV_EVENT_SM_CHANGE"},
	{says(`async.*\blast wqe reached`), "IBV_EVENT_QP_LAST_WQE_REACHED"},
}

// messageReasons are the reasons that softrdma has for what a message says, by the message's name.
var messageReasons = map[string]reason.Reason{
	"no RDMA device found": reason.ProvidersMissing,
	"no such GID":          reason.GIDIndex,
}

// messagesIn returns the entries for the sentences in a line.
func messagesIn(line string) (found []Entry) {
	for i := range messages {
		if m := &messages[i]; m.pattern().MatchString(line) {
			e := Entry{Kind: Message, Name: m.name, Meaning: m.meaning, Cause: m.cause, Look: m.look, Remedy: m.remedy, Clause: m.clause}
			if r := messageReasons[m.name]; r != reason.None {
				e.See = []string{r.String()}
			}
			found = append(found, e)
		}
	}
	for _, p := range eventPhrases {
		if p.pattern().MatchString(line) {
			found = append(found, keep(events(), func(e *Entry) bool { return e.Name == p.name })...)
		}
	}
	return found
}
