package explain

import "softrdma/internal/reason"

// These texts explain refusals concerning queues, objects and sending.
var _ = explain(map[reason.Reason]text{
	reason.CQOverflow: {
		"The completion queue received more completions than it has entries.",
		"cqe of the completion queue compared with the depths of all queues that use it, and how often it is polled.",
		"Make the completion queue as deep as all its queues together, or poll more often.",
		"IBTA 11.6.3"},
	reason.QueueFull: {
		"A work request was posted to a queue that is full. Unsignalled sends free their entries only when the completion of a later signalled send is polled.",
		"max_send_wr or max_recv_wr, and how many completions were polled.",
		"Poll before posting, signal at least one send per queue depth, or make the queue deeper.",
		"IBTA 10.8.2, 11.4.1.1"},
	reason.TooManySGEs: {
		"The work request has more scatter/gather entries than the queue was created for.",
		"max_send_sge or max_recv_sge of the queue pair or SRQ.",
		"Create the queue with more entries per request, or use fewer.",
		"IBTA 10.8.2, 11.4.1.1"},
	reason.InlineTooLong: {
		"Inline data is longer than the queue pair was created for.",
		"max_inline_data that the queue pair reports.",
		"Create the queue pair with a larger max_inline_data, or send without IBV_SEND_INLINE.",
		"libibverbs, ibv_post_send(3): the specification has no inline data"},
	reason.QPNumbers: {
		"A queue pair number has 24 bits. A device with several lanes, or on an address that programs share, has only a part of them.",
		"How many queue pairs the program has, and whether it destroys those that it no longer uses.",
		"Destroy queue pairs, or open a device on an address of its own.",
		"IBTA 3.5.1, 10.2.4"},
	reason.ObjectBusy: {
		"An object cannot be destroyed while other objects use it: a PD with regions, a CQ with queue pairs, a region with bound windows.",
		"Which objects were created from it and are not destroyed yet.",
		"Destroy those objects first.",
		"IBTA 11.2, 10.6.7.2"},
	reason.AddressUnreachable: {
		"The system has no route to the peer's address, or the address is of another family than the device's.",
		"`ip route get ADDRESS`, the device's addresses, and sgid_index.",
		"Choose the device and the sgid_index whose address family and network fit the peer.",
		"annex A17.4.2"},
	reason.GIDIndex: {
		"The GID table of the device's port has no entry at the index that an address handle or queue pair names as its source. Programs print: Failed to modify QP to RTR, or Failed to create AH.",
		"The filled entries: `softrdma devices -v`, or `ibv_devinfo -v` of a program. A RoCE device has its one address at the indices 0 to 3, an iWARP device one entry, and a port of a fabric one for each GUID that its subnet manager gave it.",
		"Give the program a filled index, for example 0 (`ibv_rc_pingpong -g`, `ib_write_bw -x`, UCX_IB_GID_INDEX, NCCL_IB_GID_INDEX).",
		"IBTA 11.2.2, annex A17.4.3"},
	reason.SendRefused: {
		"The peer's host answered by ICMP that no process listens on its UDP port: it has no RDMA device there.",
		"Whether the peer's process runs, and whether its device has this address and port.",
		"Start the peer first, and use its device's address.",
		"RFC 1122 4.1.3.3"},
	reason.AddressHandle: {
		"The work request uses an address handle that does not exist or belongs to another protection domain. rdma-core before 39 names a handle by its address vector, as handle 0.",
		"When the address handle was destroyed, and the PDs of the handle and the queue pair.",
		"Keep address handles until the sends that use them have completed.",
		"IBTA 11.2, 11.4.1.1"},
	reason.MemoryUnmapped: {
		"The server could not read or write a region of a program under softrdma exec: the program has unmapped the memory, or has ended.",
		"Whether the program unmapped or freed the memory before it deregistered the region, and whether it still runs.",
		"Keep memory mapped until its region is deregistered.",
		"IBTA 10.6.3"},
	reason.SendFailed: {
		"The operating system refused to send a packet; the transport treats it as lost.",
		"The errno: 1 (EPERM) means a firewall, 101 (ENETUNREACH) a missing route.",
		"Lower path_mtu or raise the interface's MTU; open the firewall for UDP port 4791.",
		"no clause: local to the host"},
	reason.SendNeighbour: {
		"RoCE v1 sends to MAC addresses, and no host on the interface's network answers for the peer's IP address. Packets count as lost meanwhile.",
		"`ip neigh show dev INTERFACE`: is there an entry for the address, and in which state? `ping` the address by this interface.",
		"See to it that the peer is up and in the same broadcast domain (switch, VLAN). RoCE v1 passes no router: use RoCE v2 for that.",
		"annex A16"},
	reason.SendUnreachable: {
		"A router, or this host itself, answered by ICMP that the peer's host or network is unreachable. The condition may be temporary: the packets are retransmitted like lost ones.",
		"The errno: 113 (EHOSTUNREACH) means a host that does not answer on its network, 101 (ENETUNREACH) a missing route, 13 (EACCES) a firewall that rejects UDP port 4791 (1000 if the device encrypts).",
		"Check the route, the peer's address, and that its host is up. Firewalls have to allow the port in both directions: answers go to that port, too, and not to the one that a packet came from.",
		"RFC 1122 3.2.2.1, RFC 4443 3.1"},
	reason.SendPKey: {
		"The subnet manager has removed the partition key that the queue pair's index names, so its packets cannot be sent. They count as lost.",
		"The port's P_Key table (`smpquery pkeys LID`), and pkey_index of the queue pair.",
		"Add the port to the partition again, or give the queue pair the index of another key.",
		"IBTA 10.9"},
	reason.PathMTU: {
		"The path no longer carries packets of the connection's path MTU: an interface's MTU was lowered, or the route to the peer changed to one with a smaller MTU. The packets count as lost.",
		"`ip link` for the interface's MTU, `ip route get PEER` for the route's, and the connection's path MTU.",
		"Raise the MTU again, or reconnect: a new connection uses a path MTU that fits the interface. A packet is up to 80 bytes longer than the path MTU.",
		"IBTA A17.3.1.1"},
	reason.PathNarrow: {
		"Packets of the connection's path MTU were lost repeatedly while shorter ones passed, and probes between the two softrdma ends confirm that the path drops them. Such packets are sent in IP fragments until a probe of the whole length passes again. No ICMP message is needed for this.",
		"The MTU of each hop (`tracepath PEER`), tunnels, and firewalls that drop ICMP \"fragmentation needed\" or \"packet too big\".",
		"Fragments cost speed, and some firewalls drop them. Connect again: a new connection to the peer uses the path MTU that passed. Or set a smaller one on both ends (verbs.Config.MTU), or raise the MTU of the path.",
		"RFC 8899"},
	reason.PathWhole: {
		"A probe as long as a packet of the connection's path MTU has passed: packets are sent whole again. Before, several packets were lost, and perhaps the path was narrower for a while.",
		"Whether it was preceded by PATH_NARROW. If not, packets were lost for another reason: a busy peer, or congestion.",
		"Nothing.",
		"RFC 8899"},
	reason.InterfaceMTU: {
		"The interface's MTU is below 336 bytes, which is the smallest path MTU, 256, plus up to 80 bytes of headers.",
		"`ip link` for the interface's MTU.",
		"Raise the interface's MTU, or use another interface.",
		"IBTA A17.3.1.1"},
	reason.SendWouldBlock: {
		"The socket's send buffer stayed full, and packets wait to be sent.",
		"Whether the interface is saturated or down, and net.core.wmem_max.",
		"Raise net.core.wmem_max, or send less.",
		"no clause: local to the host"},
})
