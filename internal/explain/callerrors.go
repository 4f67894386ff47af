package explain

import (
	"slices"
	"strconv"
	"strings"
	"sync"
)

// CallError is the kind of the errors of calls of libibverbs and librdmacm.
const CallError Kind = "error of a call"

// A callError explains one errno of some calls.
type callError struct {
	calls string // names, separated by blanks
	errno string // names, separated by blanks
	text
}

// anErrno matches what says which errno a line means: a name, or a number after a word for it.
var anErrno = compiled(`\bE[A-Z0-9]{3,}\b|(?i:errno|error|err|ret|rc|returned|status|code)[ =:(]{1,3}-?([0-9]{1,3})\b|[:(] ?-([0-9]{1,3})\b`)

// aCall matches the name of a call.
var aCall = compiled(`\b(?:ibv|rdma)_[a-z_]*[a-z][0-9]?\b`)

// callErrors explains what the calls return on Linux, with softrdma and with adapters.
var callErrors = []callError{
	{"ibv_reg_mr ibv_reg_mr_iova ibv_reg_mr_iova2 ibv_reg_dmabuf_mr rdma_reg_msgs rdma_reg_read rdma_reg_write", "ENOMEM EAGAIN", text{
		"With an adapter registration pins memory, and RLIMIT_MEMLOCK or the adapter's tables do not allow as much. softrdma pins nothing; its daemon refuses what exceeds its quota.",
		"`ulimit -l` of the program, /etc/security/limits.d, LimitMEMLOCK of systemd, --ulimit memlock of containers; --client-memory of softrdma daemon.",
		"Set the limit to unlimited, or register less.", "ibv_reg_mr(3)"}},
	{"ibv_reg_mr ibv_reg_mr_iova ibv_reg_mr_iova2 rdma_reg_msgs rdma_reg_read rdma_reg_write", "EFAULT", text{
		"A page of the range is not mapped, or not writable although the access flags ask for writing: constants, a file that is mapped for reading, memory of a GPU without peer access.",
		"/proc/PID/maps at the address; whether the memory is freed or is a GPU's.", "Register mapped memory; for a GPU load nvidia-peermem or use DMA-BUF.", "ibv_reg_mr(3)"}},
	{"ibv_reg_mr ibv_reg_mr_iova ibv_reg_mr_iova2", "EINVAL", text{
		"Access flags that exclude each other: REMOTE_WRITE and REMOTE_ATOMIC need LOCAL_WRITE. Or the length is 0 or wraps.",
		"The access argument and the length.", "Add IBV_ACCESS_LOCAL_WRITE.", "ibv_reg_mr(3), IBTA 11.2.8.2"}},
	{"ibv_reg_mr ibv_reg_mr_iova ibv_reg_mr_iova2 ibv_reg_dmabuf_mr", "EOPNOTSUPP", text{
		"The device does not have the kind of memory that the flags ask for: on-demand paging, DMA-BUF, huge pages.",
		"odp_caps and device_cap_flags_ex (ibv_devinfo -v).", "Register without the flag.", "ibv_reg_mr(3)"}},
	{"ibv_dereg_mr ibv_dealloc_pd ibv_destroy_cq ibv_destroy_srq ibv_destroy_qp ibv_destroy_comp_channel ibv_close_xrcd", "EBUSY", text{
		"Other objects still use this one: windows of a region, queue pairs of a completion queue, regions of a protection domain.",
		"The order in which the program destroys; `rdma resource show`.", "Destroy the users first: queue pairs, then completion queues and regions, then protection domains.", "libibverbs, ibv_destroy_qp(3)"}},
	{"ibv_create_qp ibv_create_qp_ex rdma_create_qp ibv_create_srq ibv_create_srq_ex", "EINVAL", text{
		"A capability is larger than the device has (max_send_wr, max_send_sge, max_inline_data), a queue is missing, or objects are of another device.",
		"The capabilities asked for beside max_qp_wr, max_sge and max_srq_wr of ibv_devinfo -v.", "Ask for less.", "ibv_create_qp(3)"}},
	{"ibv_create_qp ibv_create_qp_ex rdma_create_qp ibv_create_cq ibv_create_cq_ex ibv_create_srq ibv_create_srq_ex ibv_alloc_pd", "ENOMEM", text{
		"The device or the process has no room for another object: its own limit, RLIMIT_MEMLOCK (adapters pin the queues), or the process's mappings.",
		"max_qp, max_cq, max_srq and max_pd of ibv_devinfo -v; `ulimit -l`; what other programs hold (`rdma resource`).", "Destroy what is not used, ask for smaller queues, or raise the limit.", "ibv_create_qp(3)"}},
	{"ibv_create_cq ibv_create_cq_ex", "EINVAL", text{
		"The number of entries is 0 or larger than max_cqe, or comp_vector is not smaller than num_comp_vectors.",
		"max_cqe and num_comp_vectors of ibv_devinfo -v.", "Ask for fewer entries; use comp_vector 0.", "ibv_create_cq(3)"}},
	{"ibv_create_qp ibv_create_qp_ex ibv_create_cq ibv_create_cq_ex ibv_create_srq_ex ibv_create_flow ibv_alloc_dm ibv_alloc_mw ibv_open_xrcd", "EOPNOTSUPP ENOSYS", text{
		"The device or its driver does not have this object or this extended attribute.",
		"device_cap_flags and the driver's name (ibv_devinfo -v).", "Use what the device has; many programs have an option for it.", "ibv_create_qp_ex(3)"}},
	{"ibv_create_qp rdma_create_qp", "EPERM", text{
		"Raw packet queue pairs need CAP_NET_RAW.", "qp_type of the request.", "Give the program CAP_NET_RAW, or use RC or UD.", "ibv_create_qp(3)"}},
	{"ibv_modify_qp ibv_create_ah ibv_create_ah_from_wc", "ETIMEDOUT EHOSTUNREACH ENETUNREACH", text{
		"The destination GID's address cannot be resolved to a MAC address: no route, no answer to ARP or neighbour discovery, or a GID of another network or RoCE version.",
		"`ip route get`, `ping` and `ip neigh` for the peer's address from the interface of the source GID; GID index and type on both ends.", "Choose the GID index of a routable address and of the same RoCE version on both ends (show_gids, ibv_devinfo -v).", "ibv_modify_qp(3), annex A17"}},
	{"ibv_modify_qp", "EINVAL", text{
		"The transition is not allowed from the present state, an attribute is missing or must not be given, or a value is out of range: often sgid_index of an empty entry, port 0, or a path_mtu larger than active_mtu.",
		"The state before the call (ibv_query_qp), attr_mask, and GID table and active_mtu of the port.", "Give exactly the attributes of the table of transitions.", "ibv_modify_qp(3), IBTA 11.2.5.2"}},
	{"ibv_modify_qp ibv_create_ah ibv_query_gid", "ENODATA ENOENT", text{
		"The GID index has no address.", "The GID table (ibv_devinfo -v, /sys/class/infiniband/*/ports/*/gids).", "Use an index that has a GID; the index may have moved when an address was added.", "ibv_query_gid(3)"}},
	{"ibv_post_send ibv_post_recv ibv_post_srq_recv rdma_post_send rdma_post_recv rdma_post_write rdma_post_read", "ENOMEM", text{
		"The queue is full: the program posted more than max_send_wr or max_recv_wr requests whose completions it has not polled. Unsignalled requests hold their places until a later signalled one completes.",
		"The depth of the queue, and how often requests are signalled and completions polled.", "Poll before posting, and signal at least one request in each depth of the queue.", "ibv_post_send(3)"}},
	{"ibv_post_send ibv_post_recv ibv_post_srq_recv rdma_post_send rdma_post_recv rdma_post_write rdma_post_read", "EINVAL", text{
		"The queue pair's state does not allow posting, or the request has too many entries, too much inline data, or an operation that the type lacks. bad_wr is the request.",
		"State of the queue pair, num_sge, length and opcode of *bad_wr.", "Post receives from INIT on and sends from RTS on.", "ibv_post_send(3)"}},
	{"ibv_open_device ibv_get_device_list", "EACCES EPERM", text{
		"The user may not open /dev/infiniband/uverbsN, or the container's device rules forbid it.", "`ls -l /dev/infiniband`, and the container's --device.", "Add the device files to the container and the user to their group. softrdma needs none of them.", "ibv_open_device(3)"}},
	{"ibv_open_device ibv_get_device_list", "ENODEV ENOENT ENXIO ENOSYS", text{
		"The kernel's ib_uverbs module is not loaded, the device file is missing in the container, or the adapter went away.",
		"`ls /dev/infiniband /sys/class/infiniband_verbs`, `lsmod`, dmesg.", "`modprobe ib_uverbs rdma_ucm`, or run the program with softrdma.", "ibv_get_device_list(3)"}},
	{"ibv_attach_mcast", "EINVAL", text{
		"The GID is not a multicast GID, or the queue pair is not UD.", "The GID, which begins with ff, and qp_type.", "Attach UD queue pairs to multicast GIDs.", "ibv_attach_mcast(3)"}},
	{"rdma_create_event_channel", "ENODEV ENOENT EACCES", text{
		"/dev/infiniband/rdma_cm is missing or may not be opened: the module rdma_ucm is not loaded, or the container lacks the file.",
		"`ls -l /dev/infiniband/rdma_cm`.", "`modprobe rdma_ucm`, add the file to the container, or run the program with softrdma.", "rdma_create_event_channel(3)"}},
	{"rdma_bind_addr rdma_listen", "EADDRINUSE", text{
		"Another id has the port in this port space; with iWARP a TCP socket may have it.", "`rdma resource show cm_id`, `ss -ltn`.", "End the program that has the port, or use another.", "rdma_bind_addr(3)"}},
	{"rdma_bind_addr rdma_resolve_addr", "ENODEV EADDRNOTAVAIL", text{
		"No RDMA device has the address, or none is on the route to the destination: a loopback or management address, or an interface without a device.",
		"`rdma link`, `ibv_devinfo -v` (GIDs) beside `ip addr` and `ip route get`.", "Use an address of an interface with an RDMA device.", "rdma_resolve_addr(3)"}},
	{"rdma_resolve_addr rdma_resolve_route rdma_connect", "EHOSTUNREACH ENETUNREACH ETIMEDOUT", text{
		"No route leads to the address, or it does not answer ARP, neighbour discovery or the subnet administrator.",
		"`ping` from the address of the RDMA interface; opensm on InfiniBand.", "Repair the route, or pass a longer timeout.", "rdma_resolve_addr(3)"}},
	{"rdma_resolve_route rdma_connect rdma_accept rdma_listen rdma_disconnect rdma_reject", "EINVAL", text{
		"The id is in another state: each call belongs after the event of the one before. Or the parameters exceed the device (responder_resources, initiator_depth, private_data_len).",
		"The order of the calls and events; max_qp_rd_atom of ibv_devinfo -v.", "Wait for the event of each step.", "rdma_connect(3)"}},
	{"rdma_connect rdma_accept", "ECONNREFUSED ECONNRESET", text{
		"The peer rejected the connection or ended it: no listener, or its program refused.", "The server's messages; the reject reason in the event's status.", "Start the server first; softrdma explain takes the reason.", "rdma_connect(3)"}},
	{"rdma_get_cm_event ibv_get_cq_event ibv_get_async_event", "EAGAIN", text{
		"The channel is non-blocking and has no event.", "O_NONBLOCK of the channel's descriptor.", "Wait with poll, and call again.", "rdma_get_cm_event(3)"}},
	{"rdma_getaddrinfo", "ENODATA ENOENT EADDRNOTAVAIL ENODEV", text{
		"The name has no address, or ai_family and ai_port_space have none in common.", "`getent hosts NAME`, and the hints.", "Use a name or address that resolves to an RDMA interface.", "rdma_getaddrinfo(3)"}},
	{"rdma_join_multicast", "EINVAL ENOSYS EOPNOTSUPP", text{
		"The id is not of the UDP or IPoIB port space, is not bound, or the device has no multicast.", "The port space of the id.", "Use RDMA_PS_UDP, and bind or resolve the address first.", "rdma_join_multicast(3)"}},
}

// errnoTexts are what strerror says, in lower case.
var errnoTexts = sync.OnceValue(func() (all []struct{ text, name string }) {
	for _, e := range systemErrors() {
		all = append(all, struct{ text, name string }{strings.ToLower(strings.TrimSuffix(e.Meaning, ".")), e.Name})
	}
	return all
})

// errnoOf returns the name of an errno in a line, "" if it has none.
func errnoOf(line string) string {
	lower := strings.ToLower(line)
	for _, e := range errnoTexts() {
		if strings.Contains(lower, e.text) {
			return e.name
		}
	}
	for _, m := range anErrno().FindAllStringSubmatch(line, perLine) {
		n, _ := strconv.Atoi(m[1] + m[2])
		for _, e := range systemErrors() {
			if e.Name == m[0] || n > 0 && e.Number == n {
				return e.Name
			}
		}
	}
	return ""
}

// callsIn returns the entries for the calls that a line names: those of its errno. If the line has none, it
// returns all of a call, if they are wanted.
func callsIn(line string, all bool) (found []Entry) {
	names := aCall().FindAllString(line, perLine)
	if names == nil {
		return nil
	}
	errno := errnoOf(line)
	if errno == "" && !all {
		return nil
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		for i := range callErrors {
			c := &callErrors[i]
			if !slices.Contains(strings.Fields(c.calls), name) {
				continue
			}
			for _, e := range strings.Fields(c.errno) {
				if errno == "" || e == errno {
					found = append(found, c.entry(name, e))
				}
			}
		}
	}
	return found
}

func (c *callError) entry(call, errno string) Entry {
	e := Entry{Kind: CallError, Name: call + " " + errno, Meaning: call + " failed with " + errno + ".",
		Cause: c.cause, Look: c.look, Remedy: c.remedy, Clause: c.clause}
	for _, s := range systemErrors() {
		if s.Name == errno {
			e.Number, e.Meaning = s.Number, call+" failed: "+strings.ToLower(s.Meaning[:1])+s.Meaning[1:]
		}
	}
	return e
}
