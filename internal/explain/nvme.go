package explain

import (
	"softrdma/storage/nvmeof/controller"
	"softrdma/storage/nvmeof/wire/fabrics"
	nvmestatus "softrdma/storage/nvmeof/wire/status"
)

// The kinds of entries of NVMe over Fabrics.
const (
	NVMeStatus Kind = "NVMe status"
	NVMeReject Kind = "NVMe over RDMA reject status"
	NVMeReason Kind = "reason of softrdma nvme serve"
)

// noNumber is the number of an entry that has none.
const noNumber = -1

// nvmeNumbers returns the entries of NVMe over Fabrics.
func nvmeNumbers() (all []Entry) {
	for _, s := range nvmestatus.All() {
		all = append(all, Entry{Kind: NVMeStatus, Name: s.String(), Number: int(s), Meaning: sentence(s.Text()), Clause: "NVMe base 2.0 3.3.3.2.1"})
	}
	for _, r := range fabrics.Rejects() {
		t := nvmeRejectAdvice[r]
		all = append(all, Entry{Kind: NVMeReject, Name: r.String(), Number: int(r), Meaning: sentence(r.Text()),
			Cause: t.cause, Look: t.look, Remedy: t.remedy, Clause: "NVMe RDMA transport 1.0"})
	}
	for _, r := range controller.Reasons() {
		t := nvmeReasonAdvice[r]
		all = append(all, Entry{Kind: NVMeReason, Name: r.String(), Number: noNumber, Meaning: sentence(r.Sentence()),
			Cause: t.cause, Look: t.look, Remedy: t.remedy, Clause: t.clause, See: []string{r.Status().String()}})
	}
	return all
}

// nvmeRejectAdvice explains why a controller rejects the connection of a queue.
var nvmeRejectAdvice = map[fabrics.Reject]text{
	fabrics.RejectLength: {cause: "The host has sent no private data, or less than 32 bytes: it is no host of NVMe.",
		look: "Which program dials the port, and the REQ in a capture.", remedy: "Dial the port with a host of NVMe over RDMA."},
	fabrics.RejectFormat: {cause: "The host uses a newer format of the private data.",
		look: "The REQ in a capture.", remedy: "Use a host that speaks format 0."},
	fabrics.RejectQueue: {cause: "The host asks for an I/O queue with a number that the controller does not have.",
		look: "The number of queues that the controller allows (set features, number of queues).", remedy: "Ask for fewer queues: nvme connect --nr-io-queues."},
	fabrics.RejectHostSends: {cause: "The host asks for a larger queue than the controller has: an admin queue has 32 entries at most, an I/O queue the number in its capabilities.",
		look: "MQES of the controller's capabilities.", remedy: "Use smaller queues: nvme connect --queue-size."},
	fabrics.RejectHostReceive: {cause: "The host has no receives for completions.",
		look: "The REQ in a capture.", remedy: "Correct the host."},
	fabrics.RejectResources: {cause: "The target could not make the queue pair or its memory.",
		look: "The target's messages.", remedy: "Use fewer or smaller queues, or close other connections."},
	fabrics.RejectReads: {cause: "The host allows no RDMA READ in flight, with which the target fetches the data of writes.",
		look: "The responder resources of the REQ.", remedy: "Allow READs at the host."},
	fabrics.RejectInitiator: {cause: "The host asks for RDMA READs of its own, which no host of NVMe needs.",
		look: "The initiator depth of the REQ.", remedy: "Ask for none."},
}

// nvmeReasonAdvice explains those refusals that a user can do something about.
var nvmeReasonAdvice = map[controller.Reason]text{
	controller.SubsystemUnknown: {cause: "The host connects to a subsystem with another name than that of --subsystem.",
		look: "nvme discover, which lists the names.", remedy: "Connect with the name that discovery lists."},
	controller.HostNotAllowed: {cause: "The target has a list of hosts (--host), and the host's qualified name is not on it.",
		look: "/etc/nvme/hostnqn of the host.", remedy: "Add the host's name to the list, or connect with a name that is on it (nvme connect -q)."},
	controller.ControllerUnknown: {cause: "The host connects an I/O queue to a controller that has ended, or that belongs to another host.",
		look: "Whether the admin queue has ended, such as by its keep-alive timeout.", remedy: "Connect again, the admin queue first."},
	controller.QueueSize: {cause: "The queue of the connect command is larger than the controller allows, or than the connection's receives.",
		look: "sqsize of the connect command and hsqsize of the REQ.", remedy: "Use smaller queues: nvme connect --queue-size."},
	controller.BlocksOutOfRange: {cause: "The command accesses blocks beyond the end of the namespace. It may have been made smaller since the host looked.",
		look: "The size that the host believes (blockdev --getsize64) and that of the file.", remedy: "Let the host scan again: nvme ns-rescan."},
	controller.NamespaceProtected: {cause: "The namespace is served read-only.",
		look: "The option ro of --namespace.", remedy: "Mount it read-only, or serve it without ro."},
	controller.ReservationConflict: {cause: "Another host holds a reservation of the namespace, which does not allow the command, or a reservation command has a key that is not the host's.",
		look: "nvme resv-report -e, which lists the registrants and the holder.", remedy: "Let the holder release it, or preempt it: nvme resv-acquire --racqa 1.", clause: "NVMe base 2.0 8.19"},
	controller.BackendFailed: {cause: "Reading or writing the file or block device failed.",
		look: "The error at the end of the message, and the file system's free space.", remedy: "Fix the storage; the host may repeat the command."},
	controller.FaultInjected: {cause: "A rule of faults with the action fail-command selects the command.",
		look: "softrdma fault list, which names the rules and their hits.", remedy: "softrdma fault clear removes the rules."},
	controller.NotAuthenticated: {cause: "The target asks for authentication (--dhchap-secret), and the host has sent another command first: it does not authenticate.",
		look: "Whether the host has a secret.", remedy: "Give the host its secret: nvme connect --dhchap-secret.", clause: "NVMe base 2.0 8.13"},
	controller.AuthenticationFailed: {cause: "The host's response does not fit the secret that the target has for it, or the host does not accept the target's response.",
		look: "The host's line in the file of --dhchap-secret, and the secret of nvme connect.", remedy: "Use the same secret at both ends.", clause: "NVMe base 2.0 8.13"},
	controller.TransferFailed: {cause: "The target had no memory for the data.",
		look: "The error at the end of the message.", remedy: "Raise the limits of the target's process."},
}
