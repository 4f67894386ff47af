package reason

// The reasons of the rsockets protocol and the softrdma commands.
const (
	// Violations of the rsockets protocol.
	SocketVersion = socketsRoom*roomSize + iota
	SocketConnData
	SocketTarget
	SocketNoCredit
	SocketOverrun
	SocketMessage
	SocketMapping
	SocketCut
	SocketClosed
	SocketShut

	// Refusals by the softrdma commands.
	FileName
)

const socketsRoom Reason = 5

var _ = register(socketsRoom, []row{
	{SocketVersion, "SOCKET_VERSION", "wrong version of the connection data: expected %d, found %d"},
	{SocketConnData, "SOCKET_CONN_DATA", "connection data too short: expected %d bytes, found %d"},
	{SocketTarget, "SOCKET_TARGET", "peer announced an invalid receive buffer: %d bytes of the previous one left, new one of %d bytes"},
	{SocketNoCredit, "SOCKET_NO_CREDIT", "data sent without credit: expected at most %d messages, found message %d"},
	{SocketOverrun, "SOCKET_OVERRUN", "more data than the announced receive buffers hold: expected at most %d bytes, found %d"},
	{SocketMessage, "SOCKET_MESSAGE", "unknown operation in the immediate data: expected operation %d or another defined one, found %d"},
	{SocketMapping, "SOCKET_MAPPING", "peer announced mapped memory in an entry that does not exist: %d entries, found entry %d"},
	{SocketCut, "SOCKET_CUT", "stream cut off: expected the peer's end-of-stream message (operation %d), found the connection over after %d bytes"},
	{SocketClosed, "SOCKET_CLOSED", "connection or listener closed by this program: expected %d open, found %d"},
	{SocketShut, "SOCKET_SHUT", "no more data can be written to the connection: expected %d direction open, found %d"},

	{FileName, "FILE_NAME", "control character in a file name: expected characters from %#02x, found %#02x"},
}, nil)
