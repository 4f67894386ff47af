package explain

import "softrdma/internal/reason"

// These texts explain what ends an iWARP connection or prevents it.
var _ = explain(map[reason.Reason]text{
	reason.MPAKey: {
		"The peer's first bytes are not an MPA request or reply frame: it is not an iWARP peer, or both ends took the same role in the set-up.",
		"A capture of the first bytes of the TCP connection, and the program that listens on the port.",
		"Connect to a port on which an iWARP program listens.",
		"RFC 5044 7.1.1"},
	reason.MPATLS: {
		"The peer uses TLS, but this device was opened without it. No data was exchanged.",
		"How both ends were opened: verbs.Config.TLS, or --psk-file and --tls-cert of the commands.",
		"Use TLS on both ends, or on neither.",
		"RFC 5044 7.1.1, RFC 8446 5.1"},
	reason.TLSPlain: {
		"This device uses TLS, but the peer began with another protocol, usually MPA. The peer was notified by a TLS alert.",
		"How the other end was opened. Linux's siw and RDMA adapters have no TLS.",
		"Use TLS on both ends, or on neither.",
		"RFC 8446 5.1"},
	reason.TLSTrust: {
		"The peer's certificate is not signed by an authority that this end trusts, has another name, has expired, or was derived from another secret.",
		"The text after the reason; whether both ends have the same secret; whether the certificate has the dialled address or host name.",
		"Use the same secret on both ends, or certificates of an authority that the other end trusts.",
		"RFC 8446 4.4.2"},
	reason.TLSHandshake: {
		"The TLS handshake did not complete: the peer does not use TLS or supports no version that this end allows, does not trust this end, or was too slow.",
		"The error at the other end. If 0 bytes were received, the peer closed the connection at once because it does not use TLS.",
		"Use TLS on both ends, with the same secret or with certificates that the other end trusts.",
		"RFC 8446 4, 6.2"},
	reason.TLSLost: {
		"A TLS record was altered on the path, or TCP ended before TLS did: someone may have cut the connection off. Unanswered requests may not have arrived.",
		"A capture at both ends; whether the peer's process was killed.",
		"Connect again, and repeat what the peer's program has not confirmed.",
		"RFC 8446 5.2, 6.1"},
	reason.MPARevision: {
		"The peer's start-up frame has an unsupported revision, or the revision of the reply differs from the request's.",
		"The byte after the flags of the frames in a capture: 1 means RFC 5044, 2 means RFC 6581.",
		"Update the peer. softrdma connects automatically to a peer that supports only revision 1.",
		"RFC 5044 7.1.1, RFC 6581 6"},
	reason.MPAFallback: {
		"The peer answered a request of revision 2 with revision 1 or closed the connection, so the request was repeated with revision 1. The peer supports only RFC 5044, or closed the connection for another reason.",
		"Whether the connection was then established, or why the second request failed too.",
		"Nothing if the connection works. Revision 1 does not negotiate the number of READs: both programs must know how many the other end serves (responder_resources, initiator_depth).",
		"RFC 6581 10, RFC 5044 7.1.1"},
	reason.MPAPrivate: {
		"A start-up frame announces more than 512 bytes of private data, or fewer than the 4 of the enhanced set-up.",
		"The length field of the frame in a capture. Linux's siw takes at most 256 bytes.",
		"Send less private data.",
		"RFC 5044 7.1.1, RFC 6581 6"},
	reason.MPAEarly: {
		"The peer sent data after its start-up frame before the connection was accepted, or before the peer was allowed to send.",
		"A capture of the set-up: the initiator must wait for the reply, the responder for the initiator's first FPDU.",
		"Make the peer's program wait for the event that reports the connection.",
		"RFC 5044 7.1.2"},
	reason.MPARejected: {
		"The program at the other end, or its driver, rejected the connection.",
		"The private data of the rejection. Linux's siw rejects requests for markers.",
		"Request only what the peer supports: no markers, and private data that its program understands.",
		"RFC 5044 7.1.1"},
	reason.MPATimeout: {
		"The TCP connection was established, but the peer's start-up frame did not arrive.",
		"Whether the program at the other end accepts: a responder answers only after its program accepts.",
		"Make the peer's program accept in time, or wait longer.",
		"RFC 5044 7.1.2"},
	reason.MPASilent: {
		"The maximum number of peers of a listener had connected without sending a start-up frame. The oldest of these connections was closed to admit a new one.",
		"Which hosts connect to the listener's TCP port: a scan, an attack, or a load balancer's health check.",
		"Restrict the port with a firewall. Peers that send their request at once are not affected.",
		"RFC 5044 7.1.2"},
	reason.MPAEnhanced: {
		"The request asked for the enhanced set-up of revision 2, but the reply lacks its data.",
		"The flags of the reply in a capture.",
		"Update the peer: a reply of revision 2 must contain the enhanced set-up data.",
		"RFC 6581 10"},
	reason.MPADepth: {
		"The peer's reply requests more concurrent READs and ATOMICs than this end has resources for.",
		"The IRD of this end compared with the ORD in the peer's reply.",
		"Set a larger responder_resources, or make the peer use a smaller initiator_depth.",
		"RFC 6581 9.1"},
	reason.MPAReady: {
		"The initiator requests a peer-to-peer connection, but the responder supports none of the offered ready-to-receive frames.",
		"The control bits before IRD and ORD of both frames in a capture.",
		"Offer a zero-length Write and Read, which Linux's siw supports.",
		"RFC 6581 9.2"},
	reason.MPAState: {
		"The state of the connection set-up does not allow the call; for example, the program accepts twice.",
		"The order of the program's calls and of the events.",
		"Make each call once, after its event.",
		"RFC 5044 7.1.2"},
	reason.MPALength: {
		"An FPDU is too short for the headers of its message.",
		"A capture: the stream lost its framing, or the peer has a fault.",
		"Update the peer.",
		"RFC 5044 4.1, 8"},
	reason.MPAMarker: {
		"A marker in the stream does not point back at the start of the FPDU around it: the two ends do not agree on where FPDUs begin.",
		"A capture of the stream from its beginning.",
		"Connect without markers; they help only receivers that reorder TCP segments themselves.",
		"RFC 5044 4.3, 8"},
	reason.MPACRC: {
		"Data was corrupted between the two ends and TCP's checksum did not detect it. A program that writes to a buffer while it is being sent or received has the same effect.",
		"Whether the program uses buffers of requests that have not completed; then network adapters and their offloads.",
		"Do not use buffers until their request completes.",
		"RFC 5044 4.4, 8"},
	reason.DDPVersion: {
		"A segment's DDP version is not 1.",
		"A capture: the stream lost its framing, or the peer has a fault.",
		"Update the peer.",
		"RFC 5041 4.1, 7.2"},
	reason.DDPQueue: {
		"A message uses a queue that its opcode does not belong to.",
		"The queue number and the opcode of the segment in a capture.",
		"Update the peer.",
		"RFC 5040 4.1, RFC 5041 7.2"},
	reason.DDPSequence: {
		"The sequence numbers of a queue's messages do not increase by one.",
		"The message sequence numbers in a capture.",
		"Update the peer.",
		"RFC 5041 4.3, 7.2"},
	reason.DDPOffset: {
		"There is a gap or an overlap between two segments of a message.",
		"The message offsets in a capture.",
		"Update the peer.",
		"RFC 5041 5.2, 7.2"},
	reason.DDPNoBuffer: {
		"A SEND, or a WRITE with immediate data, arrived, and the program posted no receive for a second. In InfiniBand the sender would retry; iWARP has no retry, so the connection stops reading for this second and is then closed.",
		"How many receives are posted compared with the number of messages that the peer may send before it waits for an answer.",
		"Post receives before accepting the connection, and limit the peer's messages by credits.",
		"RFC 5041 7.1, 7.2"},
	reason.DDPLength: {
		"A message of fixed length, such as a READ request, is too long or too short.",
		"A capture of the segment.",
		"Update the peer.",
		"RFC 5040 4.4, RFC 5041 7.2"},
	reason.RDMAPVersion: {
		"A segment's RDMAP version is not 1.",
		"A capture: the stream lost its framing, or the peer is older than the RFCs.",
		"Update the peer.",
		"RFC 5040 4.1, 7.2"},
	reason.RDMAPOpcode: {
		"The peer sent a message whose opcode is unknown or needs extensions that were not negotiated, or a response without a request.",
		"The opcode in a capture, and the extensions negotiated in the set-up.",
		"Enable RFC 7306 on both ends, or use neither atomics nor immediate data.",
		"RFC 5040 4.1, 7.2"},
	reason.RDMAPSequence: {
		"The peer began a message before it had completed the previous one, or continued one that it had not begun.",
		"The opcodes of both messages in a capture.",
		"Update the peer.",
		"RFC 5040 5.1"},
	reason.RDMAPResponse: {
		"A READ response does not have the destination of the oldest READ, or an atomic response does not have the identifier of the oldest atomic.",
		"STag and offset of the response compared with the request in a capture.",
		"Update the peer.",
		"RFC 5040 5.2.2, RFC 7306 5.2.2"},
	reason.RDMAPAtomic: {
		"An atomic request has an operation other than fetch-and-add and compare-and-swap.",
		"The operation code of the request in a capture.",
		"Use fetch-and-add or compare-and-swap.",
		"RFC 7306 5.2.1"},
	reason.RDMAPExtension: {
		"An atomic, or a WRITE with immediate data, was posted on a connection whose peer has not announced RFC 7306. Linux's siw does not support it. iWARP has no SEND with immediate data at all.",
		"The extensions negotiated in the set-up.",
		"Post a SEND after the WRITE instead, or enable the extensions on both ends.",
		"RFC 7306 1.1"},
	reason.TermProtection: {
		"The peer ended the connection because a message of this end tried to access memory that it may not access.",
		"The last two digits of the code. From RDMAP: 00 invalid STag, 01 bounds, 02 access rights, 03 STag of another connection, 04 offset overflow. From DDP (11..): 00 invalid STag or no right to WRITE, 01 bounds, 02 STag of another connection, 03 offset overflow. Also the key, address, length and rights of the peer's memory.",
		"Give the peer's region the right that the operation needs, and stay within its bounds. A refused WRITE has already completed on this end: the Terminate fails the requests after it.",
		"RFC 5040 4.8, RFC 5041 7.2"},
	reason.TermOperation: {
		"The peer ended the connection because it found a message of this end invalid, or had no receive posted for it.",
		"The layer, type and code: 1202 means a SEND without a receive, 1205 a SEND longer than its receive, 0206 an operation that the peer does not support.",
		"Make the peer post enough receives of sufficient length, and use only operations that it supports.",
		"RFC 5040 4.8, RFC 5041 7.2"},
	reason.TermCatastrophic: {
		"The peer ended the connection for a reason of its own.",
		"The peer's log.",
		"Fix the peer's error, and connect again.",
		"RFC 5040 4.8"},
	reason.TermStream: {
		"The peer found the stream corrupted, or could not continue the set-up.",
		"The code: 02 means a wrong CRC, 03 a wrong length or marker, 04 to 07 the set-up.",
		"Do not use buffers until their request completes; take a capture at both ends.",
		"RFC 5044 8, RFC 6581 8"},
	reason.StreamClosed: {
		"The peer or this end closed the TCP connection normally.",
		"Whether the peer's program ended, or disconnected.",
		"Nothing if the end was expected.",
		"RFC 5040 6.2"},
	reason.StreamLost: {
		"The TCP connection failed, or ended within a message or before all READs were answered.",
		"Whether the peer's program or host failed, and the path to it.",
		"Connect again.",
		"RFC 5040 6.2, RFC 5044 8"},
	reason.StreamTimeout: {
		"TCP gave up on the peer, which acknowledged neither data nor probes for the peer timeout.",
		"Whether the peer's host is up, and the path to it.",
		"Connect again; a longer PeerTimeout tolerates longer interruptions.",
		"RFC 5482, RFC 9293 3.8.3"},
	reason.IWARPType: {
		"The program requested an unconnected or unreliable queue pair. iWARP runs over TCP and has neither datagrams nor multicast.",
		"The type of the queue pair.",
		"Use RC, or a RoCE device.",
		"RFC 5040 3.1"},
	reason.ConnectRefused: {
		"The peer's host refused the TCP connection that iWARP runs on: no process listens there.",
		"Whether the peer listens on that port, on an iWARP device.",
		"Start the peer first, or correct the port.",
		"RFC 5044 7.1"},
	reason.ConnectFailed: {
		"The TCP connection that iWARP runs on could not be established, or its TLS handshake did not complete in time.",
		"errno: 110 means no answer in time, 113 and 101 no route, 98 a local port in use, 24 too many open files.",
		"Check the address, the route and firewalls.",
		"RFC 5044 7.1"},
})
