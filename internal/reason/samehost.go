package reason

// The reasons of the memory path between processes of one host.
const (
	HostOff = sameHostRoom*roomSize + iota
	HostUnsupported
	HostTransport
	HostFabric
	HostDirectory
	HostDirectoryOwner
	HostDirectoryMode
	HostPublish
	HostUnpublished
	HostStale
	HostRefused
	HostUser
	HostAddress
	HostNamespace
	HostAmbiguous
	HostTimeout
	HostVersion
	HostMessage
	HostArea
	HostMemory
	HostNonce
	HostSameProcess
	HostLimit
	HostResources
	HostClosed
	HostGone
	HostRing
	HostFull
	HostStalled
	HostRevoked
	HostReference
)

const sameHostRoom Reason = 11

var _ = register(sameHostRoom, []row{
	{HostOff, "HOST_OFF", "memory path to peers on this host is switched off: expected mode %v, found %v"},
	{HostUnsupported, "HOST_UNSUPPORTED", "memory path needs Linux with /proc: expected %d, found %d"},
	{HostTransport, "HOST_TRANSPORT", "device sends streams, and the memory path carries packets: expected at least %d packet lane, found %d"},
	{HostFabric, "HOST_FABRIC", "ports of a fabric send all packets through its switches: expected %d paths through memory, found %d"},
	{HostDirectory, "HOST_DIRECTORY", "no usable directory for the sockets of this host's devices: path of %d bytes, errno %v"},
	{HostDirectoryOwner, "HOST_DIRECTORY_OWNER", "directory of this host's devices belongs to another user: expected user %d, found %d"},
	{HostDirectoryMode, "HOST_DIRECTORY_MODE", "other users can replace sockets in the directory of this host's devices: expected mode %#o, found %#o"},
	{HostPublish, "HOST_PUBLISH", "device's socket cannot be created in the directory of this host's devices: path of %d bytes, errno %v"},
	{HostUnpublished, "HOST_UNPUBLISHED", "no device on this host publishes the peer's address: expected port %d, found %d devices with other addresses"},
	{HostStale, "HOST_STALE", "socket published for the peer's address has no listener: tried %d sockets, errno %v"},
	{HostRefused, "HOST_REFUSED", "peer ended the handshake: expected message %d, found errno %v"},
	{HostUser, "HOST_USER", "peer runs as a user that is not allowed: expected user %d, found user %d"},
	{HostAddress, "HOST_ADDRESS", "peer's address is published by a user who has no socket there: expected a socket of user %d, found %d of other users"},
	{HostNamespace, "HOST_NAMESPACE", "peer's address belongs to this network namespace, but a device in another one publishes it: expected namespace %d, found %d"},
	{HostAmbiguous, "HOST_AMBIGUOUS", "devices in several network namespaces publish the peer's address: expected %d, found %d"},
	{HostTimeout, "HOST_TIMEOUT", "peer did not answer the handshake in time: limit %d ms, waited %d ms"},
	{HostVersion, "HOST_VERSION", "peer's softrdma has another version of the memory path: expected %d, found %d"},
	{HostMessage, "HOST_MESSAGE", "peer sent an invalid control message: expected %d, found %d"},
	{HostArea, "HOST_AREA", "the peer's shared memory has another version or size: expected %#x, found %#x"},
	{HostMemory, "HOST_MEMORY", "the peer's descriptor is not sealed memory of the agreed size: expected %#x, found %#x"},
	{HostNonce, "HOST_NONCE", "memory check failed, both ends do not see the same memory: expected nonce %#016x, found %#016x"},
	{HostSameProcess, "HOST_SAME_PROCESS", "peer is a device of this process: expected a process other than %d, found %d"},
	{HostLimit, "HOST_LIMIT", "one peer or user takes too many of the memory path's resources: at most %d, found %d"},
	{HostResources, "HOST_RESOURCES", "the system has no memory or file descriptors left for the memory path: %d bytes, errno %v"},
	{HostClosed, "HOST_CLOSED", "peer closed its device or its process ended: process %d, errno %v"},
	{HostGone, "HOST_GONE", "memory path to the peer has gone and no other leads there: expected %d channel, found %d"},
	{HostRing, "HOST_RING", "the peer wrote an impossible value into its shared ring: expected %#x, found %#x"},
	{HostFull, "HOST_FULL", "no room in the ring to the peer, packet dropped: tasks wait at most %d ms, packet of %d bytes"},
	{HostStalled, "HOST_STALLED", "peer takes nothing from its ring, packet dropped: waited %d ms, packet of %d bytes"},
	{HostRevoked, "HOST_REVOKED", "sender revoked a payload before it was copied: limit %d µs, payload of %d bytes"},
	{HostReference, "HOST_REFERENCE", "message refers to memory that the peer does not offer: expected at most %d bytes, found %d"},
}, kinds{
	HostOff:       {NumHostMode, NumHostMode},
	HostDirectory: {0, NumErrno},
	HostPublish:   {0, NumErrno},
	HostStale:     {0, NumErrno},
	HostRefused:   {0, NumErrno},
	HostResources: {0, NumErrno},
	HostClosed:    {0, NumErrno},
})
