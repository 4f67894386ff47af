package explain

import "softrdma/internal/machine"

type eventText struct {
	event   machine.Event
	name    string
	meaning string
	text
}

// eventTexts explains asynchronous events (IBTA 11.6.3).
var eventTexts = []eventText{
	{machine.EventCQErr, "CQ_ERR", "A completion queue failed: completions were lost.", text{
		"The completion queue overflowed.", "Its depth compared with the depths of the queues that use it.",
		"Create it again with more entries, or poll more often.", "IBTA 11.6.3"}},
	{machine.EventQPFatal, "QP_FATAL", "A queue pair failed with an error that no completion reports, and went to ERR.", text{
		"An error of its completion queue or of the device.", "The completion queue, and the reason given with the event.",
		"Fix the cause; then RESET the queue pair and connect again.", "IBTA 11.6.3"}},
	{machine.EventQPReqErr, "QP_REQ_ERR", "The responder received an invalid request, and the queue pair went to ERR.", text{
		"A request with an operation, a sequence or a length that this queue pair does not accept.",
		"The reason given with the event, and the work request that the peer posted.",
		"Allow the operation (qp_access_flags, max_dest_rd_atomic), or fix the peer.", "IBTA 11.6.3, 9.9.3"}},
	{machine.EventQPAccessErr, "QP_ACCESS_ERR", "The responder refused a peer's access to memory, and the queue pair went to ERR.", text{
		"A wrong R_Key, bounds or rights in the peer's request.", "The reason given with the event.",
		"Register with the remote access right, and give the peer the address and key exactly as registered.", "IBTA 11.6.3, 9.9.3"}},
	{machine.EventCommEst, "COMM_EST", "The first packet arrived while the queue pair was in RTR.", text{
		"The peer is already in RTS and sends.", "Nothing.", "Move the queue pair to RTS.", "IBTA 11.6.3"}},
	{machine.EventSQDrained, "SQ_DRAINED", "A send queue in SQD has completed all requests that it had started.", text{
		"The modify to SQD asked for the event.", "Nothing.", "Continue with the change that required SQD.", "IBTA 11.6.3, 10.3.1"}},
	{machine.EventPathMig, "PATH_MIG", "The connection moved to its alternate path.", text{
		"Automatic path migration, which softrdma does not do.", "The device that reported it.", "Load a new alternate path.", "IBTA 11.6.3, 17.2.8"}},
	{machine.EventPathMigErr, "PATH_MIG_ERR", "A migration to the alternate path was refused.", text{
		"The alternate path does not match the one that the peer uses.", "alt_ah_attr of both ends.", "Load a matching alternate path.", "IBTA 11.6.3, 17.2.8"}},
	{machine.EventDeviceFatal, "DEVICE_FATAL", "The device failed and none of its objects can be used.", text{
		"The device's process has ended or its network is gone.", "The log of the device.", "Close all objects and open the device again.", "IBTA 11.6.3"}},
	{machine.EventPortActive, "PORT_ACTIVE", "The port came up.", text{
		"The network interface has a link and an address, or the subnet manager has set up the port of a fabric.", "Nothing.", "Nothing.", "IBTA 11.6.3"}},
	{machine.EventPortErr, "PORT_ERR", "The port went down.", text{
		"The network interface lost its link or was taken down. A port of a fabric lost its cable, or the fabric has ended.",
		"`ip link` on the interface, `softrdma fabric status`.", "Bring the interface up; start the fabric again or put the cable back.", "IBTA 11.6.3"}},
	{machine.EventSRQErr, "SRQ_ERR", "A shared receive queue failed.", text{
		"The device found the queue corrupted.", "The reason given with the event.", "Create it and its queue pairs again.", "IBTA 11.6.3"}},
	{machine.EventSRQLimitReached, "SRQ_LIMIT_REACHED", "A shared receive queue has fewer receives than its limit.", text{
		"Receives were used faster than they were posted.", "srq_limit, and how receives are posted.",
		"Post more receives and arm the limit again.", "IBTA 11.6.3, 10.2.9"}},
	{machine.EventQPLastWQEReached, "QP_LAST_WQE_REACHED", "A queue pair on a shared receive queue has taken its last receive.", text{
		"The queue pair went to ERR and takes no more receives from the shared queue.", "The first failed completion of the queue pair.",
		"Poll its remaining completions; then destroy or RESET it.", "IBTA 11.6.3, 10.2.9.4"}},
	{machine.EventLIDChange, "LID_CHANGE", "The port's LID or LMC changed.", text{
		"The subnet manager gave the port another LID.", "`smpquery portinfo LID`, and the log of the subnet manager.",
		"Tell peers the new LID, and connect again: this port's own packets carry it already.", "IBTA 11.6.3, 14.4.3"}},
	{machine.EventPKeyChange, "PKEY_CHANGE", "The port's P_Key table changed.", text{
		"The subnet manager changed the partitions of the port.", "`smpquery pkeys LID`.",
		"Query the table again; queue pairs use the key that is at their index now.", "IBTA 11.6.3, 10.9"}},
	{machine.EventSMChange, "SM_CHANGE", "Another subnet manager is the master, or its LID or service level changed.", text{
		"The master ended, or one with a higher priority came.", "`sminfo`.", "Send queries to the new one.", "IBTA 11.6.3, 14.4.1"}},
	{machine.EventClientReregister, "CLIENT_REREGISTER", "The subnet manager asks for multicast joins and subscriptions again.", text{
		"It has lost what was registered, as a new master has.", "`saquery -g` for the groups that it knows.",
		"Join the multicast groups again.", "IBTA 11.6.3, 14.4.3"}},
	{machine.EventGIDChange, "GID_CHANGE", "The port's GID table changed.", text{
		"An address was added to or removed from the interface, or the subnet manager changed the prefix or the GUIDs of a port.", "`ip address` on the interface, `ibaddr`.",
		"Query the table again; establish connections again that used a removed address.", "libibverbs, ibv_get_async_event(3)"}},
}

const eventPrefix = "IBV_EVENT_"

func makeEvents() (all []Entry) {
	for _, t := range eventTexts {
		all = append(all, Entry{Kind: Event, Name: eventPrefix + t.name, Number: int(t.event), Meaning: t.meaning,
			Cause: t.cause, Look: t.look, Remedy: t.remedy, Clause: t.clause})
	}
	return all
}
