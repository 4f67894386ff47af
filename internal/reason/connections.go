package reason

// The reasons of the communication manager.
const (
	CMService = connectionsRoom*roomSize + iota
	CMTransport
	CMGID
	CMPeerGID
	CMMTU
	CMPKey
	CMBacklog
	CMChallenge
	CMUnproven
	CMShare
	CMEvicted
	CMAnswerRate
	CMCommID
	CMSource
	CMState
	CMDuplicate
	CMQPN
	CMStale
	CMSimultaneous
	CMAlternatePath
	CMReqTimeout
	CMRepTimeout
	CMDreqTimeout
	CMSIDRTimeout
	CMRejected
	CMSIDRRefused
	CMPrivateData
	CMServiceBusy
	CMParameter
	CMIPHeader
	CMIPAddress
	CMServiceType
	CMQKey
	CMReleased
	CMEnded
	CMAbandoned
)

const connectionsRoom Reason = 7

var _ = register(connectionsRoom, []row{
	{CMService, "CM_SERVICE", "no listener for the service ID: %d service IDs have one, found %#016x"},
	{CMTransport, "CM_TRANSPORT", "connection request for a transport other than RC and UC: expected at most %v, found %v"},
	{CMGID, "CM_GID", "connection request for an address that is not the device's: expected ...%08x, found ...%08x"},
	{CMPeerGID, "CM_PEER_GID", "connection request with an unusable sender address: sent from ...%08x, names ...%08x"},
	{CMMTU, "CM_MTU", "connection request with a path MTU that the device does not support: expected at most %d, found %d"},
	{CMPKey, "CM_PKEY", "connection request for another partition: expected %#04x, found %#04x"},
	{CMBacklog, "CM_BACKLOG", "listener's backlog is full: room for %d connection requests, found %d"},
	{CMChallenge, "CM_CHALLENGE", "connection request held until its sender confirms its address: at most %d unconfirmed requests served at once, sender ...%08x"},
	{CMUnproven, "CM_UNPROVEN", "connection request dropped, its sender did not confirm its address: expected within %d ms, waited %d ms"},
	{CMShare, "CM_SHARE", "connection request dropped, its source has too many pending requests: at most %d, found %d"},
	{CMEvicted, "CM_EVICTED", "unconfirmed connection closed to admit a newer request: expected a confirmation within %d ms, waited %d ms"},
	{CMAnswerRate, "CM_ANSWER_RATE", "message for an unknown connection not answered, rate limit reached: at most %d answers a second, sender ...%08x"},
	{CMCommID, "CM_COMM_ID", "no connection with these communication IDs: local %#08x, remote %#08x"},
	{CMSource, "CM_SOURCE", "connection manager message not from the connection's peer: expected address ...%08x, found ...%08x"},
	{CMState, "CM_STATE", "connection in the wrong state: expected %v, found %v"},
	{CMDuplicate, "CM_DUPLICATE", "duplicate connection manager message: %v, in state %v"},
	{CMQPN, "CM_QPN", "disconnect request for another queue pair: expected QPN %#06x, found %#06x"},
	{CMStale, "CM_STALE", "peer reuses the queue pair of a connection that it no longer knows: communication ID %#08x, QPN %#06x"},
	{CMSimultaneous, "CM_SIMULTANEOUS", "both ends requested the same connection, this end's request is used: own QPN %#06x, peer's %#06x"},
	{CMAlternatePath, "CM_ALTERNATE_PATH", "alternate paths are not supported: expected %d, found attribute %#04x"},
	{CMReqTimeout, "CM_REQ_TIMEOUT", "peer did not answer the connection request: %d retries used up, last wait %d ms"},
	{CMRepTimeout, "CM_REP_TIMEOUT", "peer did not confirm the accepted connection: %d retries used up, last wait %d ms"},
	{CMDreqTimeout, "CM_DREQ_TIMEOUT", "peer did not confirm the disconnect: %d retries used up, last wait %d ms"},
	{CMSIDRTimeout, "CM_SIDR_TIMEOUT", "peer did not answer the service ID resolution: %d retries used up, last wait %d ms"},
	{CMRejected, "CM_REJECTED", "peer rejected the connection: in state %v, reason %v"},
	{CMSIDRRefused, "CM_SIDR_REFUSED", "peer refused the service ID resolution: expected status %v, found %v"},
	{CMPrivateData, "CM_PRIVATE_DATA", "private data too long for the message: at most %d bytes, found %d"},
	{CMServiceBusy, "CM_SERVICE_BUSY", "service ID already has a listener: expected %d, found service ID %#016x"},
	{CMParameter, "CM_PARAMETER", "connection parameter out of range: at most %d, found %d"},
	{CMIPHeader, "CM_IP_HEADER", "unsupported IP CM header in a connection request: expected version %d with IP version 4 or 6, found %#04x"},
	{CMIPAddress, "CM_IP_ADDRESS", "wrong IP address in a connection request: expected ...%08x, found ...%08x"},
	{CMServiceType, "CM_SERVICE_TYPE", "connection request for a service type other than the listener's: expected %v, found %v"},
	{CMQKey, "CM_QKEY", "datagram peer uses another Q_Key than this id: expected %#08x, found %#08x"},
	{CMReleased, "CM_RELEASED", "connection released before it was made, its program ended or gave it up: in state %v, communication ID %#08x"},
	{CMEnded, "CM_ENDED", "program ended the connection, with no failure of its queue pair that the device knows of: QPN %#06x, the other end's %#06x"},
	{CMAbandoned, "CM_ABANDONED", "connection closed for a program that ended, was killed or destroyed the id without a disconnect: QPN %#06x, the other end's %#06x"},
}, kinds{
	CMReleased:    {NumCMState, 0},
	CMTransport:   {NumCMTransport, NumCMTransport},
	CMState:       {NumCMState, NumCMState},
	CMDuplicate:   {NumCMAttribute, NumCMState},
	CMRejected:    {NumCMState, NumCMReject},
	CMSIDRRefused: {NumSIDRStatus, NumSIDRStatus},
	CMServiceType: {NumQPType, NumQPType},
})
