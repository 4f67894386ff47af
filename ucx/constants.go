package ucx

// UcpProtection flags say how mapped memory may be used.
type UcpProtection uint32

// The protections.
const (
	UCP_MEM_MAP_PROT_LOCAL_READ   UcpProtection = 1 << 0
	UCP_MEM_MAP_PROT_LOCAL_WRITE  UcpProtection = 1 << 1
	UCP_MEM_MAP_PROT_REMOTE_READ  UcpProtection = 1 << 8
	UCP_MEM_MAP_PROT_REMOTE_WRITE UcpProtection = 1 << 9
)

// A UcpContextAttr identifies a field of UcpContextAttributes.
type UcpContextAttr uint32

// The fields that UcpContext.Query fills in.
const (
	UCP_ATTR_FIELD_REQUEST_SIZE UcpContextAttr = 1 << iota
	UCP_ATTR_FIELD_THREAD_MODE
	UCP_ATTR_FIELD_MEMORY_TYPES
	UCP_ATTR_FIELD_NAME
)

// A UcpMemAttribute identifies a field of UcpMemAttributes.
type UcpMemAttribute uint32

// The fields that UcpMemory.Query fills in.
const (
	UCP_MEM_ATTR_FIELD_ADDRESS UcpMemAttribute = 1 << iota
	UCP_MEM_ATTR_FIELD_LENGTH
	UCP_MEM_ATTR_FIELD_MEM_TYPE
)

// A UcpWakeupEvent is a kind of event that wakes a worker.
type UcpWakeupEvent uint32

// The kinds of events. A worker wakes for all of them.
const (
	UCP_WAKEUP_RMA      UcpWakeupEvent = 1 << 0
	UCP_WAKEUP_AMO      UcpWakeupEvent = 1 << 1
	UCP_WAKEUP_TAG_SEND UcpWakeupEvent = 1 << 2
	UCP_WAKEUP_TAG_RECV UcpWakeupEvent = 1 << 3
	UCP_WAKEUP_TX       UcpWakeupEvent = 1 << 10
	UCP_WAKEUP_RX       UcpWakeupEvent = 1 << 11
	UCP_WAKEUP_EDGE     UcpWakeupEvent = 1 << 16
)

// A UcpWorkerAttribute identifies a field of UcpWorkerAttributes.
type UcpWorkerAttribute uint32

// The fields that UcpWorker.Query fills in.
const (
	UCP_WORKER_ATTR_FIELD_THREAD_MODE UcpWorkerAttribute = 1 << iota
	UCP_WORKER_ATTR_FIELD_ADDRESS
	UCP_WORKER_ATTR_FIELD_ADDRESS_FLAGS
	UCP_WORKER_ATTR_FIELD_MAX_AM_HEADER
	UCP_WORKER_ATTR_FIELD_NAME
	UCP_WORKER_ATTR_FIELD_MAX_INFO_STRING
)

// A UcpListenerAttribute identifies a field of UcpListenerAttributes.
type UcpListenerAttribute uint32

// The field that UcpListener.Query fills in.
const UCP_LISTENER_ATTR_FIELD_SOCKADDR UcpListenerAttribute = 1

// A UcpConnRequestAttribute identifies a field of UcpConnectionRequestAttributes.
type UcpConnRequestAttribute uint32

// The fields that UcpConnectionRequest.Query fills in. They have no type, as in UCX's binding.
const (
	UCP_CONN_REQUEST_ATTR_FIELD_CLIENT_ADDR = 1 << iota
	UCP_CONN_REQUEST_ATTR_FIELD_CLIENT_ID
)

// UcpAmSendFlags say how an active message is sent.
type UcpAmSendFlags uint64

const (
	// UCP_AM_SEND_FLAG_REPLY asks for an endpoint for answers, which handlers always get.
	UCP_AM_SEND_FLAG_REPLY UcpAmSendFlags = 1 << iota
	// UCP_AM_SEND_FLAG_EAGER asks to send the data at once. Data that is too long for a frame
	// still stays in the sender's memory.
	UCP_AM_SEND_FLAG_EAGER
	// UCP_AM_SEND_FLAG_RNDV leaves the data in the sender's memory, however short it is.
	UCP_AM_SEND_FLAG_RNDV
	// UCP_AM_SEND_FLAG_COPY_HEADER copies the header, so that the program may change it at once.
	UCP_AM_SEND_FLAG_COPY_HEADER
)

// UcpAmRecvAttrs describe an active message that arrived.
type UcpAmRecvAttrs uint64

const (
	// UCP_AM_RECV_ATTR_FIELD_REPLY_EP says that there is an endpoint for answers.
	UCP_AM_RECV_ATTR_FIELD_REPLY_EP UcpAmRecvAttrs = 1 << 0
	// UCP_AM_RECV_ATTR_FLAG_DATA says that the data can be kept beyond the handler.
	UCP_AM_RECV_ATTR_FLAG_DATA UcpAmRecvAttrs = 1 << 16
	// UCP_AM_RECV_ATTR_FLAG_RNDV says that the data is in the sender's memory.
	UCP_AM_RECV_ATTR_FLAG_RNDV UcpAmRecvAttrs = 1 << 17
)

// UcpAmCbFlags say what a handler of active messages needs.
type UcpAmCbFlags uint64

const (
	// UCP_AM_FLAG_WHOLE_MSG asks for whole messages, which handlers always get.
	UCP_AM_FLAG_WHOLE_MSG UcpAmCbFlags = 1 << iota
	// UCP_AM_FLAG_PERSISTENT_DATA asks for data that can be kept, which all data can.
	UCP_AM_FLAG_PERSISTENT_DATA
)

// A UcsThreadMode says how many goroutines use a worker. Every mode permits any number.
type UcsThreadMode int

// The thread modes.
const (
	UCS_THREAD_MODE_SINGLE UcsThreadMode = iota
	UCS_THREAD_MODE_SERIALIZED
	UCS_THREAD_MODE_MULTI
)
