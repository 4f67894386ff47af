package explain

import "softrdma/internal/reason"

const pspClause = "PSP Architecture Specification 1.0"

// These texts explain what a RoCE v2 device with TLS refuses.
var _ = explain(map[reason.Reason]text{
	reason.PSPClear: {
		"This device encrypts all packets, and a packet came in the clear to its UDP port. The packet was dropped.",
		"Whether the peer's device was opened with TLS; the sender of the packets in a capture.",
		"Open both ends with TLS, or neither.",
		pspClause},
	reason.PSPPacket: {
		"A packet to the UDP port for PSP has no PSP header, is protected in another mode than the peers agree on, or holds something other than a UDP datagram for this device. Numbers that are not equal are those of the first field that is wrong.",
		"A capture of the packet: traffic of other programs on the port, or a peer that is not softrdma.",
		"Keep other traffic off the port.",
		pspClause},
	reason.PSPSPI: {
		"No peer has been given the packet's SPI since this device was opened, or it was replaced twice since. The peer restarts, or talks to an earlier device on this address; or the packet is forged.",
		"Whether this device was closed and opened again, and whether UDP gets through between both devices' ports, over which keys are renewed.",
		"Let UDP through to the device's port, and connect again.",
		pspClause},
	reason.PSPSource: {
		"The packet has the SPI of one peer and the address of another. Someone forges addresses, or a translator gives packets another address than the connection has over which keys are agreed on, and began to do so while the two devices were connected.",
		"A capture, and whether there is an address translator on the path.",
		"Connect again.",
		pspClause},
	reason.PSPIntegrity: {
		"The packet's integrity check value is wrong: it was changed on its way, or forged by someone without the key.",
		"The sender of such packets in a capture; damaged links if there are few.",
		"Nothing: the packet was dropped, and what was lost is sent again.",
		pspClause},
	reason.PSPReplay: {
		"A packet with this number was received before, or so many newer ones that this device cannot tell. The network duplicated or delayed it, or someone repeats recorded packets.",
		"Whether the network duplicates or reorders packets by more than a thousand.",
		"Nothing: the packet was dropped.",
		"PSP Architecture Specification 1.0, RFC 4303 3.4.3"},
	reason.PSPNoKey: {
		"The device has no key of this peer: both have not met, or the key was in use for too long without being renewed.",
		"Whether UDP gets through to the device's port.",
		"Connect again.",
		pspClause},
	reason.PSPOffer: {
		"The peer's message with its key has another format or cipher than this version knows.",
		"The versions of softrdma at both ends.",
		"Run the same version of softrdma on both ends.",
		pspClause},
	reason.PSPPeer: {
		"This device encrypts, and no device answers for keys at the peer's UDP port. The peer's device was opened without TLS, is not softrdma, or does not run, or a firewall drops UDP to the port. Nothing was sent in the clear.",
		"How the peer's device was opened, and firewalls.",
		"Open both ends with TLS, and let UDP through to the device's port.",
		pspClause},
	reason.PSPSilent: {
		"The peer has completed the handshake, and then did not say with which key it can be sent to.",
		"The versions of softrdma at both ends, and whether the peer is stopped.",
		"Run the same version of softrdma on both ends.",
		pspClause},
	reason.PSPPeers: {
		"Other devices hold all places for keys that this device has, or those that one host may have. Places of peers that are gone are given to new ones. The same holds for callers that have not proved who they are.",
		"Who calls at the device's UDP port.",
		"Require certificates of clients, so that no unauthenticated peer takes a place.",
		pspClause},
	reason.PSPBehind: {
		"An address translator (NAT) is between the peer and this device, and the peer has no open connection to it. Nothing can be sent to the peer before it calls. The address that it has behind the translator leads nowhere from here.",
		"Which end connects, and whether a program tells the other its GID by means of its own.",
		"Let the end behind the translator connect, by the connection manager.",
		"RFC 4787"},
	reason.PSPMoved: {
		"The translator (NAT) between the peer and this device has begun to use another address or port for the peer. The peer has confirmed it by a packet that only it can make, and its packets go there from now on.",
		"How long the translator keeps entries without traffic, if it happens often.",
		"Nothing.",
		"RFC 4787 4.3"},
	reason.PSPEarly: {
		"Packets came with a key that was given to a caller before it has proved who it is. A few are held until then, unopened, and replace each other.",
		"Whether callers are refused (TLS_HANDSHAKE, TLS_TRUST), and how many there are.",
		"Nothing: the packet was dropped, and what was lost is sent again.",
		pspClause},
})
