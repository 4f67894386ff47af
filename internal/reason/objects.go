package reason

// The reasons of queues, objects, and packets that could not be sent.
const (
	// Queues and objects.
	CQOverflow = objectsRoom*roomSize + iota
	QueueFull
	TooManySGEs
	InlineTooLong
	ObjectBusy
	QPNumbers
	AddressUnreachable
	GIDIndex
	SendRefused
	AddressHandle
	MemoryUnmapped

	// Packets that could not be sent.
	SendFailed
	SendNeighbour
	SendUnreachable
	PathMTU
	InterfaceMTU
	SendWouldBlock
	SendPKey
	PathNarrow
	PathWhole
)

const objectsRoom Reason = 4

var _ = register(objectsRoom, []row{
	{CQOverflow, "CQ_OVERFLOW", "completion queue overflow: room for %d, found %d"},
	{QueueFull, "QUEUE_FULL", "work queue full: room for %d, %d outstanding"},
	{TooManySGEs, "TOO_MANY_SGES", "too many scatter/gather entries: at most %d, found %d"},
	{InlineTooLong, "INLINE_TOO_LONG", "inline data too long: at most %d bytes, found %d"},
	{ObjectBusy, "OBJECT_BUSY", "object in use: expected %d users, found %d"},
	{QPNumbers, "QP_NUMBERS", "no queue pair number left: a lane of this device may have %d queue pairs, it has %d"},
	{AddressUnreachable, "ADDRESS_UNREACHABLE", "no route to the address: expected address family %v, found %v"},
	{GIDIndex, "GID_INDEX", "SGID index without an entry in the GID table: the table has entries from 0 to %d, found index %d"},
	{SendRefused, "SEND_REFUSED", "no process listens on the peer's UDP port, its host reports: sent %d bytes, found errno %v"},
	{AddressHandle, "ADDRESS_HANDLE", "no such address handle: expected one of PD %d, found %d"},
	{MemoryUnmapped, "MEMORY_UNMAPPED", "cannot access the program's memory: %d bytes at its address %#x"},

	{SendFailed, "SEND_FAILED", "the operating system refused to send: %d bytes, errno %v"},
	{SendNeighbour, "SEND_NEIGHBOUR", "the peer's MAC address is unknown: asked for GID ...%016x, found %d answers"},
	{SendUnreachable, "SEND_UNREACHABLE", "peer's host is unreachable, the network reports: sent %d bytes, found errno %v"},
	{PathMTU, "PATH_MTU", "packet too long for the path to the peer: expected at most %d bytes, found %d"},
	{InterfaceMTU, "INTERFACE_MTU", "network interface's MTU is too small for RoCE v2: expected at least %d bytes, found %d"},
	{SendWouldBlock, "SEND_WOULD_BLOCK", "socket send buffer full: %d bytes to send, waited %d ms"},
	{SendPKey, "SEND_PKEY", "no P_Key at the queue pair's index: the port's table has %d entries, index %d is empty"},
	{PathNarrow, "PATH_NARROW", "path does not carry packets of the path MTU, which are fragmented: path MTU %d, largest that passes %d"},
	{PathWhole, "PATH_WHOLE", "path carries packets of the path MTU again: path MTU %d, largest that passes %d"},
}, kinds{
	AddressUnreachable: {NumFamily, NumFamily},
	SendRefused:        {0, NumErrno},
	SendFailed:         {0, NumErrno},
	SendUnreachable:    {0, NumErrno},
})
