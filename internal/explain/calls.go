package explain

import "softrdma/internal/reason"

// These texts explain calls that are refused before anything is sent.
var _ = explain(map[reason.Reason]text{
	reason.DeviceOpen: {
		"The device cannot be opened: no interface or address has the name, another socket has its address and UDP port, or no daemon listens.",
		"The name, `softrdma devices`, and `ss -lun` for who has the port.",
		"Name an interface or address that `softrdma devices` lists, or end the program that has its port.",
		"annex A17.3.2.2"},
	reason.DeviceClosed: {
		"The device was closed, or it failed and has ended.",
		"Who calls Close on the device, and the event DEVICE_FATAL.",
		"Destroy the objects, and open the device again.",
		"IBTA 11.2"},
	reason.ObjectDestroyed: {
		"The call uses an object that was destroyed.",
		"The order in which the program destroys its objects.",
		"Keep an object until the last call that uses it.",
		"IBTA 11.2"},
	reason.Argument: {
		"An argument of the call is missing, out of range, or belongs to another device or protection domain.",
		"The text of the error, which names the argument and its range.",
		"Pass a value in the range. DeviceAttr and the constants of package verbs have the limits.",
		"IBTA 11.2"},
	reason.Unsupported: {
		"The device, its transport or this system does not have what the call asks for.",
		"The text of the error, which names it, and the protocol of the device.",
		"Use a device of the other protocol, or do without.",
		"annex A17, RFC 5040"},
	reason.QPTransition: {
		"The queue pair cannot change to this state from the state that it is in.",
		"The order of the calls: RESET, INIT, RTR, RTS.",
		"Make the transitions in this order; from ERR, go back to RESET first.",
		"IBTA 10.3.1, 11.2.5.2"},
	reason.QPAttributes: {
		"The change of state lacks attributes that it needs, or names some that it cannot take.",
		"The text of the error, which names the attributes.",
		"Set exactly the attributes that the transition takes.",
		"IBTA 11.2.5.2, table 91"},
	reason.QPAttributeRange: {
		"An attribute of the queue pair has a value that is not allowed.",
		"The text of the error, which names the attribute and its range.",
		"Set a value in the range.",
		"IBTA 11.2.5.2"},
	reason.WaitFailed: {
		"The system call that waits for packets failed, so the device cannot continue.",
		"The errno: 12 (ENOMEM) means that the system has no memory.",
		"Open the device again once the system has memory and file descriptors.",
		"no clause: local to the host"},
	reason.WaitEnded: {
		"The deadline that the program set has passed, or the program cancelled the context of the call, before what the call waited for.",
		"The text of the error, which names what the call waited for; whether the peer's device still answers (softrdma pingpong).",
		"Allow more time, or treat the peer as gone.",
		"no clause: local to the host"},
	reason.IDState: {
		"The connection manager does not allow the call in the state of the identifier.",
		"The order of the calls: bind or resolve the address, resolve the route, connect; or bind, listen, accept.",
		"Wait for the event that ends a call before the next call.",
		"rdma_cm(7): the specification has no identifiers"},
	reason.IDPort: {
		"Another identifier has the port on this address, or no ephemeral port is free.",
		"Which listeners of this process, or of the daemon, have the port.",
		"Choose another port, port 0 for a free one, or let both set the option to share it.",
		"annex A11.3.1"},
	reason.Disconnected: {
		"A side ended the connection.",
		"Which side disconnected, and the log of the peer's program.",
		"Connect again.",
		"IBTA 12.6.10, 12.6.11"},
	reason.TLSMismatch: {
		"One address has one iWARP device in a process, and that was opened without TLS or with another configuration.",
		"The *tls.Config of all connections from and to this address.",
		"Pass the same *tls.Config for all of them.",
		"RFC 5044 10"},
})
