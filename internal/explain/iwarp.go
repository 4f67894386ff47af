package explain

import "softrdma/internal/reason"

// iwarp explains what ends an iWARP connection, or keeps it from beginning.
var iwarp = map[reason.Reason]text{
	reason.MPAKey: {
		"What the peer sent first is not MPA's request or reply frame: it is no iWARP peer, or this end took the wrong side of the set-up.",
		"A capture of the first bytes of the TCP connection, and the program that listens on the port.",
		"Connect to a port on which an iWARP program listens.",
		"RFC 5044 7.1.1"},
	reason.MPATLS: {
		"The peer began with TLS, or answered with it, and this device was opened without. Nothing went over.",
		"How both ends were opened: verbs.Config.TLS, or --psk-file and --tls-cert of the commands.",
		"Give both ends TLS, or none.",
		"RFC 5044 7.1.1, RFC 8446 5.1"},
	reason.TLSPlain: {
		"This device speaks TLS and the peer began with something else, MPA as a rule. The peer was told so by an alert.",
		"How the other end was opened. Linux's siw and RDMA adapters have no TLS.",
		"Give both ends TLS, or none.",
		"RFC 8446 5.1"},
	reason.TLSTrust: {
		"The peer's certificate is not signed by an authority that this end trusts, is of another name or out of date, or was derived from another secret.",
		"The text behind the reason. That both ends have the same secret; that the certificate names the address or host that was dialled.",
		"Give both ends the same secret, or certificates of an authority that the other end trusts.",
		"RFC 8446 4.4.2"},
	reason.TLSHandshake: {
		"The handshake of TLS did not come to its end: the peer speaks no TLS, or no version that this end allows, does not trust this end, or was too slow.",
		"What the other end tells. With 0 bytes received the peer has closed at once: it speaks no TLS.",
		"Give both ends TLS, the same secret, or certificates that the other end trusts.",
		"RFC 8446 4, 6.2"},
	reason.TLSLost: {
		"TLS met a record that was changed on the way, or TCP ended before TLS had: somebody may have cut the connection off. What was not answered may not have arrived.",
		"A capture of both ends; whether the peer's process was killed.",
		"Connect again; treat what was not confirmed by the peer's program as not done.",
		"RFC 8446 5.2, 6.1"},
	reason.MPARevision: {
		"The peer's start-up frame has a revision that is not served, or a reply has another one than the request.",
		"The byte behind the flags of the frames in a capture: 1 is RFC 5044, 2 is RFC 6581.",
		"Update the peer. A peer that knows revision 1 alone is connected with it by itself.",
		"RFC 5044 7.1.1, RFC 6581 6"},
	reason.MPAFallback: {
		"The peer answered a request of revision 2 with revision 1, or closed without an answer, and was asked again with revision 1: it knows RFC 5044 alone, or closed for a reason of its own.",
		"What came next: a connection, or the reason why the second request failed as well.",
		"Nothing where the connection works. Revision 1 tells nothing of READs: both programs have to know how many the other end serves (responder_resources, initiator_depth).",
		"RFC 6581 10, RFC 5044 7.1.1"},
	reason.MPAPrivate: {
		"A start-up frame announces more than 512 bytes of private data, or fewer than the 4 of the enhanced set-up.",
		"The length field of the frame in a capture. Linux's siw takes at most 256 bytes.",
		"Send less private data.",
		"RFC 5044 7.1.1, RFC 6581 6"},
	reason.MPAEarly: {
		"The peer sent data behind its start-up frame before the connection was accepted, or before it was allowed to begin.",
		"A capture of the set-up: the initiator waits for the reply, the responder for the initiator's first FPDU.",
		"The peer's program has to wait for the event that tells of the connection.",
		"RFC 5044 7.1.2"},
	reason.MPARejected: {
		"The program at the other end, or its driver, rejected the connection.",
		"The private data of the rejection. Linux's siw rejects requests for markers.",
		"Ask for what the peer has: no markers, and private data that its program understands.",
		"RFC 5044 7.1.1"},
	reason.MPATimeout: {
		"The TCP connection was made, but the peer's start-up frame did not come.",
		"Whether the program at the other end accepts: a responder answers only when its program does.",
		"Let the peer's program accept in time, or wait longer.",
		"RFC 5044 7.1.2"},
	reason.MPASilent: {
		"More peers than a listener waits for have connected and sent no start-up frame. The oldest of these connections was closed to make room.",
		"Which hosts connect to the listener's TCP port: a scan, an attack, or a load balancer's health check.",
		"Restrict the port with a firewall. Peers that send their request at once are not affected.",
		"RFC 5044 7.1.2"},
	reason.MPAEnhanced: {
		"The request asked for the enhanced set-up of revision 2, and the reply has none of its data.",
		"The flags of the reply in a capture.",
		"Update the peer: whoever answers with revision 2 has to have its data.",
		"RFC 6581 10"},
	reason.MPADepth: {
		"The peer's reply asks for more READs and ATOMICs to be served at a time than this end has resources for.",
		"The IRD of this end against the ORD in the peer's reply.",
		"Ask for a greater responder_resources, or let the peer use a smaller initiator_depth.",
		"RFC 6581 9.1"},
	reason.MPAReady: {
		"The initiator wants a peer-to-peer connection, and the responder takes none of the frames that could begin it.",
		"The control bits in front of IRD and ORD of both frames in a capture.",
		"Offer zero-length Write and Read, which Linux's siw has.",
		"RFC 6581 9.2"},
	reason.MPAState: {
		"A call that the set-up of this connection does not allow now, such as accepting twice.",
		"The order of the program's calls against the events.",
		"Make each call once, after its event.",
		"RFC 5044 7.1.2"},
	reason.MPALength: {
		"The length of an FPDU is less than the headers of the message in it take.",
		"A capture: the stream is out of step, or the peer errs.",
		"Update the peer.",
		"RFC 5044 4.1, 8"},
	reason.MPAMarker: {
		"A marker in the stream does not point back at the start of the FPDU around it: the two ends do not agree where FPDUs begin.",
		"A capture of the stream from its beginning.",
		"Connect without markers; they help receivers only that reorder TCP segments themselves.",
		"RFC 5044 4.3, 8"},
	reason.MPACRC: {
		"Bytes changed between the two ends, without TCP's checksum noticing. Memory that a program writes to while a long message arrives in it, or leaves from it, has the same effect.",
		"Whether the program touches buffers of requests that have not completed; then network adapters and their offloads.",
		"Leave buffers alone until their request completes.",
		"RFC 5044 4.4, 8"},
	reason.DDPVersion: {
		"A segment has another version of DDP than 1.",
		"A capture: the stream is out of step, or the peer errs.",
		"Update the peer.",
		"RFC 5041 4.1, 7.2"},
	reason.DDPQueue: {
		"A message stands on another queue than its opcode belongs to.",
		"The queue number and the opcode of the segment in a capture.",
		"Update the peer.",
		"RFC 5040 4.1, RFC 5041 7.2"},
	reason.DDPSequence: {
		"The messages of a queue do not count up by one.",
		"The message sequence numbers in a capture.",
		"Update the peer.",
		"RFC 5041 4.3, 7.2"},
	reason.DDPOffset: {
		"The segments of a message do not follow each other without gaps.",
		"The message offsets in a capture.",
		"Update the peer.",
		"RFC 5041 5.2, 7.2"},
	reason.DDPNoBuffer: {
		"A SEND, or a WRITE with immediate data, came, and no receive was posted for a second. InfiniBand lets the sender try again; over iWARP nothing of the connection is read meanwhile, and then it ends.",
		"How many receives are posted, against how many messages the peer may send before it is answered.",
		"Post receives before the connection is accepted, and bound what the peer sends by credits.",
		"RFC 5041 7.1, 7.2"},
	reason.DDPLength: {
		"A message without payload, such as a READ request, is longer or shorter than its layout.",
		"A capture of the segment.",
		"Update the peer.",
		"RFC 5040 4.4, RFC 5041 7.2"},
	reason.RDMAPVersion: {
		"A segment has another version of RDMAP than 1.",
		"A capture: the stream is out of step, or the peer is of the time before the RFCs.",
		"Update the peer.",
		"RFC 5040 4.1, 7.2"},
	reason.RDMAPOpcode: {
		"The peer sent a message whose opcode is unknown, needs extensions that were not agreed on, or answers nothing that was asked.",
		"The opcode in a capture, and what the set-up agreed on.",
		"Agree on RFC 7306 at both ends, or use neither atomics nor immediate data.",
		"RFC 5040 4.1, 7.2"},
	reason.RDMAPSequence: {
		"The peer sent another message before it had ended one, or went on with one that it had not begun.",
		"The opcodes of both messages in a capture.",
		"Update the peer.",
		"RFC 5040 5.1"},
	reason.RDMAPResponse: {
		"A response names another place than the oldest READ's, or another request than the oldest atomic.",
		"STag and offset of the response against the request in a capture.",
		"Update the peer.",
		"RFC 5040 5.2.2, RFC 7306 5.2.2"},
	reason.RDMAPAtomic: {
		"An atomic request asks for another operation than fetch-and-add and compare-and-swap.",
		"The operation code of the request in a capture.",
		"Use the two operations that the verbs have.",
		"RFC 7306 5.2.1"},
	reason.RDMAPExtension: {
		"An atomic, or a WRITE with immediate data, was posted to a connection whose peer has not told that it has RFC 7306. Linux's siw has not. A SEND with immediate data does not exist in iWARP at all.",
		"What the set-up agreed on.",
		"Use a SEND behind the WRITE, or switch the extensions on at both ends.",
		"RFC 7306 1.1"},
	reason.TermProtection: {
		"The peer ended the connection because a message of this end named memory that it may not touch so.",
		"The code: 00 invalid STag, and of DDP (1100) a WRITE without the right to it; 01 bounds, 02 rights, 03 or 02 of DDP another connection's, 04 or 03 wrapping offset. The key, address, length and rights of the peer's memory.",
		"Give the peer's region the right that the operation needs, and stay inside it. A WRITE that was refused has completed before: the Terminate ends what comes behind it.",
		"RFC 5040 4.8, RFC 5041 7.2"},
	reason.TermOperation: {
		"The peer ended the connection because it could not make sense of a message of this end, or had no receive posted for it.",
		"The layer, type and code: 1202 is a SEND without a receive, 1205 one that is longer than its receive, 0206 an operation that the peer lacks.",
		"Let the peer post enough receives that are long enough, and use what it has.",
		"RFC 5040 4.8, RFC 5041 7.2"},
	reason.TermCatastrophic: {
		"The peer ended the connection for a reason of its own.",
		"The peer's log.",
		"Mend what ails the peer, and connect again.",
		"RFC 5040 4.8"},
	reason.TermStream: {
		"The peer found that the bytes of the stream are not what they should be, or that the set-up cannot go on.",
		"The code: 02 is the CRC, 03 lengths and markers, 04 to 07 the set-up.",
		"Leave buffers alone until their request completes; take a capture at both ends.",
		"RFC 5044 8, RFC 6581 8"},
	reason.StreamClosed: {
		"The TCP connection was closed in order, by the peer or by this end.",
		"Whether the peer's program ended, or disconnected.",
		"Nothing, if the end was expected.",
		"RFC 5040 6.2"},
	reason.StreamLost: {
		"The TCP connection broke, or ended within a message or before READs were answered.",
		"Whether the peer's program or host died, and the path to it.",
		"Connect again.",
		"RFC 5040 6.2, RFC 5044 8"},
	reason.IWARPType: {
		"An unconnected or unreliable queue pair was asked for: iWARP runs over TCP, and has no datagrams, hence no multicast either.",
		"The type of the queue pair.",
		"Use RC, or a RoCE device.",
		"RFC 5040 3.1"},
	reason.ConnectRefused: {
		"The peer's host refused the TCP connection that iWARP runs on: nobody listens there.",
		"Whether the peer listens on that port, and on an iWARP device.",
		"Start the peer first, or correct the port.",
		"RFC 5044 7.1"},
	reason.ConnectFailed: {
		"The TCP connection that iWARP runs on could not be made, or TLS on it did not end its handshake in time.",
		"errno: 110 is no answer in time, 113 and 101 no route, 98 a local port that is taken, 24 too many open files.",
		"Check the address, the route and firewalls.",
		"RFC 5044 7.1"},
}
