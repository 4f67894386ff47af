package explain

import (
	"maps"
	"slices"
	"strings"

	"softrdma/internal/wire/mad/smp"
)

// The kinds of numbers of an InfiniBand subnet.
const (
	Trap          Kind = "trap of a subnet"
	PortState     Kind = "port state"
	PhysicalState Kind = "physical port state"
	ManagerState  Kind = "subnet manager state"
)

// trapTexts are the traps of nodes and the notices of the subnet manager.
var trapTexts = []struct {
	number        int
	name, meaning string
	text
}{
	{64, "GID_IN_SERVICE", "A port has become reachable.", text{
		"The subnet manager has set up a port that was not there before.", "`saquery`, `softrdma fabric status`.", "Nothing.", "IBTA 14.2.5.1"}},
	{65, "GID_OUT_OF_SERVICE", "A port is not reachable any more.", text{
		"Its node has ended or lost its link, or the network has parted.", "`softrdma fabric links`, `iblinkinfo`.", "Put the link back.", "IBTA 14.2.5.1"}},
	{66, "MULTICAST_GROUP_CREATED", "The first member joined a multicast group.", text{
		"A program joined at the subnet administrator.", "`saquery -g`.", "Nothing.", "IBTA 14.2.5.1"}},
	{67, "MULTICAST_GROUP_DELETED", "The last full member left a multicast group.", text{
		"A program left the group, or its port has gone.", "`saquery -g`.", "Nothing.", "IBTA 14.2.5.1"}},
	{128, "LINK_STATE_CHANGE", "A port of a switch went down or came up.", text{
		"A cable, the node at its other end, or a command changed the link.", "`softrdma fabric links`, `iblinkinfo`.",
		"Nothing: the subnet manager sweeps, and routes around the link.", "IBTA 14.2.5.1"}},
	{144, "CAPABILITY_CHANGE", "The capabilities or the description of a node changed.", text{
		"A program such as a subnet manager began or ended there.", "The capability mask (`smpquery portinfo LID`).", "Nothing.", "IBTA 14.2.5.1"}},
	{256, "MKEY_VIOLATION", "A management packet showed a wrong M_Key.", text{
		"Two subnet managers have different M_Keys, or a tool has none.", "The sender's LID in the trap; `smpquery portinfo LID`.",
		"Give the manager or the tool the M_Key of the subnet.", "IBTA 14.2.4, 14.2.5.1"}},
	{257, "PKEY_VIOLATION", "A packet arrived at a port with a P_Key of another partition.", text{
		"The two ends are not members of one partition.", "Both LIDs in the trap; `smpquery pkeys LID`.",
		"Change the partitions, or the P_Key index of the queue pair.", "IBTA 10.9, 14.2.5.1"}},
	{258, "QKEY_VIOLATION", "A datagram arrived with a wrong Q_Key.", text{
		"The sender does not know the Q_Key of the queue pair.", "Both queue pair numbers in the trap.", "Send with the receiver's Q_Key.", "IBTA 10.2.5, 14.2.5.1"}},
	{259, "SWITCH_PKEY_VIOLATION", "A switch dropped a packet with a P_Key of another partition.", text{
		"The port of the switch enforces partitions, and the packet's is not among them.", "Both LIDs in the trap; `smpquery pkeys LID PORT`.",
		"Change the partitions, or the P_Key index of the queue pair.", "IBTA 10.9, 14.2.5.1"}},
}

var portStateTexts = map[smp.PortState]string{
	smp.PortDown:   "The link does not work: no packet passes.",
	smp.PortInit:   "The link works. Packets of subnet management pass alone, until a subnet manager sets the port up.",
	smp.PortArmed:  "The subnet manager has set the port up: it receives data, and becomes active with the first packet or by a command.",
	smp.PortActive: "The port sends and receives data.",
}

var physicalStateTexts = map[smp.PhysicalState]string{
	smp.PhysicalSleep:    "The port sleeps.",
	smp.PhysicalPolling:  "The port looks for another end: there is no cable, or the other end is off or disabled.",
	smp.PhysicalDisabled: "A subnet manager or a tool has disabled the port.",
	smp.PhysicalTraining: "The two ends agree on width and speed.",
	smp.PhysicalLinkUp:   "The link is up.",
	smp.PhysicalRecovery: "The link lost its synchronization and recovers.",
}

var managerStateTexts = map[smp.SMState]string{
	smp.SMNotActive:   "The subnet manager has been told to do nothing.",
	smp.SMDiscovering: "The subnet manager looks for nodes and for other managers.",
	smp.SMStandby:     "Another subnet manager is the master. This one takes over when that does not answer.",
	smp.SMMaster:      "The subnet manager programs the subnet.",
}

// subnetNumbers returns the entries for the numbers of a subnet.
func subnetNumbers() (all []Entry) {
	for _, t := range trapTexts {
		all = append(all, Entry{Kind: Trap, Name: "TRAP_" + t.name, Number: t.number, Meaning: t.meaning,
			Cause: t.cause, Look: t.look, Remedy: t.remedy, Clause: t.clause})
	}
	add := func(k Kind, n int, prefix, name, meaning, clause string) {
		all = append(all, Entry{Kind: k, Name: prefix + strings.Join(split(name), "_"), Number: n, Meaning: meaning, Clause: clause})
	}
	for _, s := range slices.Sorted(maps.Keys(portStateTexts)) {
		add(PortState, int(s), "PORT_STATE_", s.String(), portStateTexts[s], "IBTA 7.2, 14.2.5.6")
	}
	for _, s := range slices.Sorted(maps.Keys(physicalStateTexts)) {
		add(PhysicalState, int(s), "PHYSICAL_", s.String(), physicalStateTexts[s], "IBTA 14.2.5.6")
	}
	for _, s := range slices.Sorted(maps.Keys(managerStateTexts)) {
		add(ManagerState, int(s), "SM_", s.String(), managerStateTexts[s], "IBTA 14.4.1")
	}
	return all
}
