package reason

// The reasons of programs that use a server's device.
const (
	ClientUser = clientsRoom*roomSize + iota
	ClientMemory
	ClientProtocol
	ClientProcess
	ClientFile
	ClientLimit
	ClientStalled
	ClientDescriptors
	ServerDescriptors
	ServerReserve
	SlotUnshared
	SlotUser
	SlotNetwork
	SlotsTaken
	ProvidersMissing
	SlotConnections
	CommandHandle
	ObjectLimit
	CommandRefused
)

const clientsRoom Reason = 9

var _ = register(clientsRoom, []row{
	{ClientUser, "CLIENT_USER", "user not allowed to use this server: the server runs as user %d, the program as %d"},
	{ClientMemory, "CLIENT_MEMORY", "the server cannot access the program's memory: process %d, errno %v"},
	{ClientProtocol, "CLIENT_PROTOCOL", "message from another version of softrdma: expected version %d, found %d"},
	{ClientProcess, "CLIENT_PROCESS", "connection used by a process that did not open it: expected process %d, found %d"},
	{ClientFile, "CLIENT_FILE", "device file used by a user who did not open it: expected user %d, found %d"},
	{ClientLimit, "CLIENT_LIMIT", "one user's programs hold too many of the server's resources: at most %d, found %d"},
	{ClientStalled, "CLIENT_STALLED", "memory of the program does not answer: expected within %d ms, address %#x"},
	{ClientDescriptors, "CLIENT_DESCRIPTORS", "message with more file descriptors than any command takes: expected at most %d, found %d or more"},
	{ServerDescriptors, "SERVER_DESCRIPTORS", "the server is out of file descriptors: at most %d, errno %v"},
	{ServerReserve, "SERVER_RESERVE", "all programs together hold the share of the server's resources reserved for programs: at most %d, found %d"},
	{SlotUnshared, "SLOT_UNSHARED", "device's address is not shared with programs: expected protocol %d opened with verbs.Config.Shared, found protocol %d"},
	{SlotUser, "SLOT_USER", "address is shared with programs of the server's own user alone: expected user %d, found user %d"},
	{SlotNetwork, "SLOT_NETWORK", "shared address is one of another network namespace: expected namespace cookie %d, found %d"},
	{SlotsTaken, "SLOTS_TAKEN", "every share of the device's address is in use: %d programs may have one, %d have one"},
	{ProvidersMissing, "PROVIDERS_MISSING", "libibverbs has no driver for the devices: expected %d or more devices, found %d"},
	{SlotConnections, "SLOT_CONNECTIONS", "connection manager of a shared address belongs to the process that shares it out: expected queue pair %d, found %d"},
	{CommandHandle, "COMMAND_HANDLE", "no such object in this device file: %d objects, handle %d"},
	{ObjectLimit, "OBJECT_LIMIT", "the program has as many objects of this kind as the device allows: at most %d, found %d"},
	{CommandRefused, "COMMAND_REFUSED", "device file refused the call: number %#x, errno %v"},
}, kinds{
	ClientMemory:      {0, NumErrno},
	ServerDescriptors: {0, NumErrno},
	CommandRefused:    {0, NumErrno},
})
