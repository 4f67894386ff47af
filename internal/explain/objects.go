package explain

import "softrdma/internal/reason"

// objects explains refusals of queues, objects and the way out.
var objects = map[reason.Reason]text{
	reason.CQOverflow: {
		"More completions came than the completion queue has room for.",
		"cqe of the completion queue against the depths of all queues that complete to it, and how often it is polled.",
		"Make the completion queue as deep as the sum of the queues, or poll more often.",
		"IBTA 11.6.3"},
	reason.QueueFull: {
		"A work request was posted to a queue that is full. Unsignalled sends free their place only when a later signalled one was polled.",
		"max_send_wr or max_recv_wr, and how many completions were polled.",
		"Poll before posting, signal at least one send in each queue's depth, or make the queue deeper.",
		"IBTA 10.8.2, 11.4.1.1"},
	reason.TooManySGEs: {
		"The work request has more scatter/gather entries than the queue was made for.",
		"max_send_sge or max_recv_sge of the queue pair or SRQ.",
		"Ask for more entries when you make it, or gather into fewer.",
		"IBTA 10.8.2, 11.4.1.1"},
	reason.InlineTooLong: {
		"Inline data is longer than the queue pair was made for.",
		"max_inline_data that the queue pair reports.",
		"Ask for more when you make the queue pair, or send without IBV_SEND_INLINE.",
		"libibverbs, ibv_post_send(3): the specification has no inline data"},
	reason.ObjectBusy: {
		"An object cannot be destroyed while others use it: a PD with regions, a CQ with queue pairs, a region with bound windows.",
		"What was made from the object and not destroyed yet.",
		"Destroy users before what they use.",
		"IBTA 11.2, 10.6.7.2"},
	reason.AddressUnreachable: {
		"The system has no route to the peer's address, or the address is of another family than the device's.",
		"`ip route get ADDRESS`, the device's addresses, and sgid_index.",
		"Choose the device and the sgid_index whose address family and network fit the peer.",
		"annex A17.4.2"},
	reason.SendRefused: {
		"The peer's host answered that nobody listens on its UDP port: no RDMA device is there.",
		"Whether the peer's process runs, and whether its device has the address and port that were named.",
		"Start the peer first, and name its device's address.",
		"RFC 1122 4.1.3.3"},
	reason.AddressHandle: {
		"The work request names an address handle that does not exist, or one of another protection domain.",
		"When the address handle was destroyed, and the PD of handle and queue pair.",
		"Keep address handles until the sends that use them have completed.",
		"IBTA 11.2, 11.4.1.1"},
	reason.MemoryUnmapped: {
		"A program under softrdma exec registered memory that is no longer mapped in it, or the program has ended: the system would not read or write it.",
		"Whether the program unmapped or freed the memory before it deregistered it, and whether it still lives.",
		"Keep memory mapped until its region is deregistered.",
		"IBTA 10.6.3"},
	reason.SendFailed: {
		"The operating system refused to send a packet; the transport treats it as lost.",
		"The errno: 1 (EPERM) a firewall, 101 (ENETUNREACH) a missing route.",
		"Lower path_mtu or raise the interface's MTU; open the firewall for UDP port 4791.",
		"no clause: local to the host"},
	reason.SendUnreachable: {
		"A router, or this host itself, answered by ICMP that the peer's host or network cannot be reached. That may pass: packets are sent again as if lost.",
		"The errno: 113 (EHOSTUNREACH) is a host that does not answer on its network, 101 (ENETUNREACH) a missing route, 13 (EACCES) a firewall.",
		"See to the route, the peer's address, and that its host is up.",
		"RFC 1122 3.2.2.1, RFC 4443 3.1"},
	reason.PathMTU: {
		"The path became narrower than the connection's path MTU: an interface's MTU was lowered, or a route with a smaller MTU leads to the peer now. The packets count as lost.",
		"`ip link` for the interface's MTU, `ip route get PEER` for the route's, and the connection's path MTU.",
		"Raise the MTU again, or connect anew: a new connection takes a path MTU that fits the interface. A packet is up to 80 bytes longer than the path MTU.",
		"IBTA A17.3.1.1"},
	reason.InterfaceMTU: {
		"The interface's MTU is below 336 bytes: the smallest path MTU, 256, and headers of up to 80 bytes.",
		"`ip link` for the interface's MTU.",
		"Raise the interface's MTU, or take another interface.",
		"IBTA A17.3.1.1"},
	reason.SendWouldBlock: {
		"The socket's send buffer stayed full, and packets wait.",
		"Whether the interface is saturated or down, and net.core.wmem_max.",
		"Raise net.core.wmem_max, or offer less load.",
		"no clause: local to the host"},
}
