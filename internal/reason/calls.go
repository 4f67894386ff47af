package reason

// The reasons of calls that are refused before anything is sent.
const (
	DeviceOpen = callsRoom*roomSize + iota
	DeviceClosed
	ObjectDestroyed
	Argument
	Unsupported
	QPTransition
	QPAttributes
	QPAttributeRange
	WaitFailed
	WaitEnded
	IDState
	IDPort
	Disconnected
	TLSMismatch
)

const callsRoom Reason = 10

var _ = register(callsRoom, []row{
	{DeviceOpen, "DEVICE_OPEN", "device cannot be opened: UDP port %d, found errno %v"},
	{DeviceClosed, "DEVICE_CLOSED", "device closed: expected %d open, found %d"},
	{ObjectDestroyed, "OBJECT_DESTROYED", "object destroyed: expected %d, found %d"},
	{Argument, "ARGUMENT", "argument not allowed: limit %d, found %d"},
	{Unsupported, "UNSUPPORTED", "not supported by this device or transport: expected %d, found %d"},
	{QPTransition, "QP_TRANSITION", "queue pair cannot change from state %v to %v"},
	{QPAttributes, "QP_ATTRIBUTES", "attributes of a state change missing or not allowed: missing mask %#x, not allowed mask %#x"},
	{QPAttributeRange, "QP_ATTRIBUTE_RANGE", "attribute out of range: mask %#x, value %d"},
	{WaitFailed, "WAIT_FAILED", "waiting for packets failed: %d lane stopped, found errno %v"},
	{WaitEnded, "WAIT_ENDED", "deadline or context of the call ended first: waited for %d event, found %d"},
	{IDState, "ID_STATE", "communication identifier in the wrong state: expected %v, found %v"},
	{IDPort, "ID_PORT", "port not free: asked for port %d, another identifier has port %d"},
	{Disconnected, "DISCONNECTED", "connection ended: expected state %v, found %v"},
	{TLSMismatch, "TLS_MISMATCH", "device is open with another TLS configuration: TLS asked for %d, device has %d"},
}, kinds{
	DeviceOpen:   {0, NumErrno},
	QPTransition: {NumQPState, NumQPState},
	WaitFailed:   {0, NumErrno},
	IDState:      {NumIDState, NumIDState},
	Disconnected: {NumIDState, NumIDState},
})
