package reason

// The reasons of management datagrams and the subnet administrator.
const (
	// Management datagrams.
	MADLength = managementRoom*roomSize + iota
	MADVersion
	MADClass
	MADClassVersion
	MADMethod
	MADAttribute
	SMPPort
	SMPHops
	SMPManagementKey
	MADQueuePair
	MADAgentTaken
	MADAgents
	MADSendQueue
	MADReceiveQueue
	MADNoRequest

	// The subnet's administrator, asked for a path or for membership in a group.
	SANone
	SATimeout
	SAStatus
	SAAnswer
	SAGroup
	SAForgotten
)

const managementRoom Reason = 6

var _ = register(managementRoom, []row{
	{MADLength, "MAD_LENGTH", "management datagram of the wrong length: expected %d bytes, found %d"},
	{MADVersion, "MAD_VERSION", "wrong base version of a management datagram: expected %d, found %d"},
	{MADClass, "MAD_CLASS", "unsupported management class: expected %#02x, found %#02x"},
	{MADClassVersion, "MAD_CLASS_VERSION", "wrong class version of a connection manager message: expected %d, found %d"},
	{MADMethod, "MAD_METHOD", "wrong method of a connection manager message: expected %#02x, found %#02x"},
	{MADAttribute, "MAD_ATTRIBUTE", "unknown connection manager message: expected one of %d, found %v"},
	{SMPPort, "SMP_PORT", "subnet management packet for or from a port that the node does not have: expected at most %d, found %d"},
	{SMPHops, "SMP_HOPS", "directed route that does not lead on from this node: expected %d, found %d"},
	{SMPManagementKey, "SMP_MANAGEMENT_KEY", "wrong M_Key or CC_Key in a management packet: protection level %d, attribute %#04x"},
	{MADQueuePair, "MAD_QUEUE_PAIR", "management queue pair that the port does not have: it has queue pair %d, found %d"},
	{MADAgentTaken, "MAD_AGENT_TAKEN", "method of a management class that another agent has: class %#02x, method %#02x"},
	{MADAgents, "MAD_AGENTS", "too many management agents of one file: at most %d, found %d"},
	{MADSendQueue, "MAD_SEND_QUEUE", "too many management datagrams wait to be sent or answered: at most %d, found %d"},
	{MADReceiveQueue, "MAD_RECEIVE_QUEUE", "program does not read its management datagrams: at most %d wait, found %d"},
	{MADNoRequest, "MAD_NO_REQUEST", "management response without a request that waits for it: class %#02x, transaction %#x"},

	{SANone, "SA_NONE", "no subnet manager has configured the port: expected the LID of one (%d), found %d"},
	{SATimeout, "SA_TIMEOUT", "no answer from the subnet administrator within %d ms, asked at LID %d"},
	{SAStatus, "SA_STATUS", "subnet administrator refuses the query: expected status %d, found %#04x"},
	{SAAnswer, "SA_ANSWER", "path from the subnet administrator is not usable: expected an MTU and the LID of a port (%d), found LID %d"},
	{SAGroup, "SA_GROUP", "multicast group from the subnet administrator is not usable: expected an MTU and a LID from %#04x, found LID %#04x"},
	{SAForgotten, "SA_FORGOTTEN", "the subnet manager may have forgotten the membership in a multicast group: expected LID %#04x, found event %d of the port"},
}, kinds{
	MADAttribute: {0, NumCMAttribute},
})
