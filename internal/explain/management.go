package explain

import "softrdma/internal/reason"

// These are reasons of management datagrams and of the subnet administrator.
var _ = explain(map[reason.Reason]text{
	reason.MADLength: {
		"A management datagram is not 256 bytes long.",
		"A capture of the packet to queue pair 1: another kind of program than a communication manager sends there.",
		"Keep other traffic off queue pair 1.",
		"IBTA 13.4.2"},
	reason.MADVersion: {
		"The first byte of a management datagram is not 1, the only base version that InfiniBand defines.",
		"A capture: the datagram was corrupted, or comes from Omni-Path.",
		"Use a peer that speaks RoCE v2.",
		"IBTA 13.4.2"},
	reason.MADClass: {
		"A management datagram has a class other than communication management (0x07), and no program on the device registered for its class and method.",
		"Which tool sends it: perfquery and subnet managers get no answer from a RoCE device.",
		"Read counters with `softrdma` on the host itself.",
		"IBTA 13.4.4, 13.5.3"},
	reason.MADClassVersion: {
		"The peer's communication manager uses a class version other than 2.",
		"The age of the peer's driver.",
		"Update the peer's driver.",
		"IBTA 12.6.1"},
	reason.MADMethod: {
		"A communication manager message has a method other than Send.",
		"A capture of the packet and of the peer that sent it.",
		"Update the peer's driver.",
		"IBTA 12.6.1, 13.4.5"},
	reason.MADAttribute: {
		"Neither IBTA 1.3 nor Linux defines this communication manager message.",
		"A capture of the packet and of the peer that sent it.",
		"Update the peer's driver, or softrdma.",
		"IBTA 12.6.1"},
	reason.SMPPort: {
		"A subnet management packet arrived by a port that the node does not have, or its directed route leaves by such a port.",
		"The path that the tool was given, as with `smpquery -D`, and the ports of the nodes on it.",
		"Use a path of ports that exist: `ibnetdiscover` prints them.",
		"IBTA 14.2.2"},
	reason.SMPHops: {
		"The hop pointer of a directed route does not fit this node: the route goes through an adapter, is over, or was never begun.",
		"The path that the tool was given: only its last node may be an adapter.",
		"Use a path whose hops are switches.",
		"IBTA 14.2.2"},
	reason.SMPManagementKey: {
		"A management packet has another M_Key than the port, or another CC_Key than the node, whose protection refuses it. It gets no response.",
		"Which manager set the key, and whether a second one runs; the port counts the violations and reports them as trap 256.",
		"Give the tool the key (`-y`), or wait until the key's lease runs out.",
		"IBTA 14.2.4"},
	reason.MADQueuePair: {
		"A program registered a management agent of queue pair 0, the subnet management interface, at a port of Ethernet, which has none.",
		"Which class the program uses: subnet management (0x01, 0x81) is InfiniBand's alone.",
		"Use such tools on an InfiniBand fabric. Linux refuses this too.",
		"IBTA 13.5.2, annex A16"},
	reason.MADAgentTaken: {
		"A program registered a management agent for a method of a class that another agent of the port has, or that is the communication manager's.",
		"Which other programs use umad on this device, for example a second ibping server.",
		"End the other program, or register other methods. Linux refuses this too.",
		"no clause: local to the host"},
	reason.MADAgents: {
		"A program registered more than 32 management agents with one open device file.",
		"Whether the program unregisters agents that it does not use any more.",
		"Open the device file again for more agents. Linux has the same limit.",
		"no clause: local to the host"},
	reason.MADSendQueue: {
		"A program sent management datagrams faster than they leave, or has too many requests without a response.",
		"How many requests the program sends before it reads responses.",
		"Read responses and time-outs in between.",
		"no clause: local to the host"},
	reason.MADReceiveQueue: {
		"A management datagram for a program was dropped because the program has not read those before it.",
		"Whether the program reads the device file.",
		"Read it, or unregister the agent.",
		"no clause: local to the host"},
	reason.MADNoRequest: {
		"A response came after the request had timed out or its agent was unregistered, or came twice, or is forged.",
		"The timeout and the retries of the program's requests, against the time that the peer takes.",
		"Raise the timeout.",
		"IBTA 13.4.6"},
	reason.SANone: {
		"A program asks for a path on an InfiniBand fabric that has no subnet manager, or whose manager has not reached the port yet.",
		"Whether a manager runs: softrdma fabric status, or sminfo and ibstat under softrdma exec. The port's state must be Active.",
		"Start opensm, or leave out --no-sm of softrdma fabric up. Then wait until the port is active.",
		"IBTA 14.4.3, 15.4"},
	reason.SATimeout: {
		"The subnet administrator did not answer a query for a path: the manager has ended, its node cannot be reached, or it is busy with a sweep.",
		"Whether the manager still runs, and the way to it: softrdma fabric trace, or ibtracert.",
		"Start a manager, or repair the way to it, and connect again.",
		"IBTA 15.4"},
	reason.SAStatus: {
		"The subnet administrator knows no path for what was asked: the peer's port is not in its tables, or shares no partition with this one. Or it refuses a membership in a multicast group. Status 0x0300 means no records, 0x0200 an invalid request.",
		"The administrator's view: saquery -p, saquery -g. The partitions of both ports: smpquery pkeys, or softrdma fabric status.",
		"Connect to a port that is active, and configure both ports as members of one partition. A group has the Q_Key and the service level of its first member, and the link of a member has at least its MTU and rate.",
		"IBTA 15.2.3, 15.2.5.16"},
	reason.SAAnswer: {
		"The subnet administrator answered a path without an MTU or with a LID that is not a port's.",
		"The answer in a capture, or by saquery -p.",
		"Report it to the maintainers of the subnet manager.",
		"IBTA 15.2.5.16"},
	reason.SAGroup: {
		"The subnet administrator answered a join of a multicast group without an MTU or with a LID that is not a group's.",
		"The answer in a capture, or by saquery -g.",
		"Report it to the maintainers of the subnet manager.",
		"IBTA 15.2.5.17"},
	reason.SAForgotten: {
		"The port went down, or has another LID, partition or subnet manager, or the manager asked for new joins. The port's multicast groups end with that, as in Linux.",
		"The event: 10 port error, 11 LID change, 12 P_Key change, 13 SM change, 17 client reregister. Groups and members: saquery -g, saquery -m.",
		"Leave the group and join it again when the port is active.",
		"IBTA 14.4.4, 15.2.5.17"},
})
