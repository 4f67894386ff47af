package explain

import "softrdma/internal/reason"

// These texts explain the refusals of package rdmanet: how peers violate the
// rsockets protocol.
var _ = explain(map[reason.Reason]text{
	reason.SocketVersion: {
		"The peer's private data at connection set-up is not rsockets' connection data of a known version.",
		"Whether the program at the other end uses rsockets (librspreload.so, rsend, rrecv) or package rdmanet: other programs on rdma_cm send other private data, or none.",
		"Connect to the port of a program that speaks rsockets; for another protocol use package rdmacm.",
		"librdmacm docs/rsocket: struct rs_conn_data"},
	reason.SocketConnData: {
		"The peer sent too little private data at connection set-up for rsockets' connection data.",
		"Whether the program at the other end uses rsockets at all.",
		"Connect to the port of a program that speaks rsockets; for another protocol use package rdmacm.",
		"librdmacm docs/rsocket: struct rs_conn_data"},
	reason.SocketTarget: {
		"The peer announced a receive buffer before it had filled the previous one in the same entry, or a buffer of 0 bytes; or its connection data names a target table without entries.",
		"A capture of the WRITE to the target table (16 bytes, immediate data 0x8000....) and of the WRITEs before it.",
		"Correct the peer's program: it may announce a buffer again only after all of it was read.",
		"librdmacm docs/rsocket: target SGL"},
	reason.SocketNoCredit: {
		"The peer sent more messages of data than it had credit for.",
		"Compare in a capture the credits in this end's connection data and credit messages (immediate data 0x8000....) with the messages received.",
		"Correct the peer's program: it must count its messages modulo 2^16 and stop at the limit it was given.",
		"librdmacm docs/rsocket: credits"},
	reason.SocketOverrun: {
		"The peer sent more bytes than the receive buffers announced to it can hold.",
		"Compare in a capture the lengths in the immediate data (0x0000....) with the buffers that this end announced.",
		"Correct the peer's program: it must fill each buffer to its end and not beyond.",
		"librdmacm docs/rsocket: data transfer"},
	reason.SocketMessage: {
		"The immediate data of a message has a reserved operation, or the message has no immediate data.",
		"The upper three bits of the immediate data in a capture: 0 is data, 4 a credit, 6 mapped memory, 7 a control message.",
		"The other end speaks another protocol, or a later version of this one.",
		"librdmacm docs/rsocket: message format"},
	reason.SocketMapping: {
		"The peer announced mapped memory (riomap) in an entry that this end's table does not have.",
		"The size of the table in this end's connection data, and the entry in the peer's message (immediate data 0xc000....), in a capture.",
		"Map fewer ranges at a time, or set Options.MappedMemory.",
		"librdmacm docs/rsocket: iomapped buffers"},
	reason.SocketCut: {
		"The connection ended before the peer sent the message that ends a stream. The peer's program was killed or exited without closing the connection; its machine or the path failed; or someone on the path cut the connection.",
		"Whether and how the peer's process ended; the reason that the error names after this one. A program under librspreload.so has to close its sockets before it exits.",
		"Treat the data read so far as incomplete and transfer it again. End streams with Close or CloseWrite, in rsockets with rclose or rshutdown.",
		"librdmacm docs/rsocket: RS_OP_CTRL"},
	reason.SocketClosed: {
		"This program closed the connection or the listener before the call, or while the call waited.",
		"Which goroutine calls Close.",
		"Take the error as the end of a loop that reads or accepts: errors.Is(err, net.ErrClosed).",
		"no clause: local to the host"},
	reason.SocketShut: {
		"The peer closed the connection and reads no more, or this program called CloseWrite.",
		"Whether the peer closes before it has read everything; whether this program writes after CloseWrite.",
		"Stop writing: errors.Is(err, syscall.EPIPE).",
		"librdmacm docs/rsocket: RS_OP_CTRL"},
	reason.FileName: {
		"The name of a file that rcopy should write has a control character, such as a line break or the start of a terminal escape sequence. Printed to a log, it could forge lines.",
		"The name, which the error prints in quotes.",
		"Give another destination name: rcopy FILE HOST:NAME.",
		"softrdma rcopy"},
})
