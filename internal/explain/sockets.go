package explain

import "softrdma/internal/reason"

// sockets are the refusals of package rdmanet: what peers must not do that
// speak the rsockets protocol.
var sockets = map[reason.Reason]text{
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
		"The peer told a receive buffer while an earlier one in the same place was not full yet, or one of no bytes; or its connection data names a target table without entries.",
		"A capture of the WRITE to the target table (16 bytes, immediate data 0x8000....) and of what was written before it.",
		"A buffer is told again only when all of it was read; the peer's program has to be corrected.",
		"librdmacm docs/rsocket: target SGL"},
	reason.SocketNoCredit: {
		"The peer sent more messages of data than it had credit for.",
		"The credits in this side's connection data and in its credit messages (immediate data 0x8000....) in a capture, against the messages that came.",
		"The peer must count its messages modulo 2^16 and stop at the limit that it was told.",
		"librdmacm docs/rsocket: credits"},
	reason.SocketOverrun: {
		"The peer told of more bytes than the receive buffers have room for that it knows.",
		"The lengths in the immediate data (0x0000....) in a capture, against the buffers that this side told.",
		"The peer must fill each buffer to its end, and none beyond it.",
		"librdmacm docs/rsocket: data transfer"},
	reason.SocketMessage: {
		"The immediate data of a message has an operation that is reserved, or the message had none.",
		"The upper three bits of the immediate data in a capture: 0 is data, 4 a credit, 6 mapped memory, 7 a control message.",
		"The other end speaks another protocol, or a later version of this one.",
		"librdmacm docs/rsocket: message format"},
	reason.SocketMapping: {
		"The peer told of memory that it has mapped (riomap) in an entry that this side's table does not have.",
		"The size of the table in this side's connection data, and the number in the peer's message (immediate data 0xc000....), in a capture.",
		"Map fewer ranges at a time, or set Options.MappedMemory.",
		"librdmacm docs/rsocket: iomapped buffers"},
	reason.SocketCut: {
		"The connection ended, and the peer had not sent the message that ends a stream. Its program was killed, or ended without closing the connection; its machine or the path failed; or somebody on the path cut the connection.",
		"Whether the peer's process ended, and how; the reason that the error names after this one. A program under librspreload.so has to close its sockets before it exits.",
		"Treat what was read as incomplete, and transfer it again. End streams by Close or CloseWrite, with rsockets by rclose or rshutdown.",
		"librdmacm docs/rsocket: RS_OP_CTRL"},
	reason.FileName: {
		"The name of a file that rcopy is to write has a control character, such as a line break or the beginning of a terminal's escape sequence. Printed, it could make up lines of a log.",
		"The name, which the error prints quoted.",
		"Name another destination: rcopy FILE HOST:NAME.",
		"softrdma rcopy"},
}
