package cm

import (
	"net/netip"
	"time"

	"softrdma/internal/psn"
	"softrdma/internal/qp"
	"softrdma/internal/wire/mad"
)

// The defaults of zero parameters, as in Linux's rdma_cm.
const (
	DefaultResponseTimeout = 20 // 4.3 s
	DefaultRetries         = 15
	DefaultPacketLifeTime  = 16 // 0.27 s
	DefaultMRATimeout      = 24 // 69 s, as Linux's rdma_cm passes to Delay, with DelayOnDuplicate
)

// DelayOnDuplicate in a service timeout passed to Delay sends the MRA only when the message
// comes a second time, because most answers are quick.
const DelayOnDuplicate = 0x80

// ConnectParams are the parameters of Connect.
type ConnectParams struct {
	Service mad.ServiceID
	Path    qp.Path // to the peer, which is told HopLimit 64 for 0
	Type    qp.Type // RC (also for 0) or UC
	QPN     uint32  // of the local queue pair, 24 bits
	PSN     psn.PSN // first PSN of the peer's requests, 24 bits; 0 draws one

	// For an InfiniBand fabric: the peer's GID, unless the path contains it, the partition,
	// and the path's rate in an administrator's path record. A PKey of 0 means the default
	// partition.
	RemoteGID  netip.Addr
	PKey       uint16
	PacketRate uint8 // 6 bits

	PathMTU int // bytes; 0 is the device's

	// ResponderResources is how many READs and ATOMICs the local queue pair serves concurrently,
	// InitiatorDepth how many it wants to have in flight.
	ResponderResources, InitiatorDepth uint8

	RetryCount    uint8 // 0 to 7: of both queue pairs
	RNRRetryCount uint8 // 0 to 7: of the peer's queue pair
	FlowControl   bool
	SRQ           bool

	// PacketLifeTime is how long a packet may be in the network, as an exponent to 4.096
	// µs; 0 is DefaultPacketLifeTime. The acknowledge timeouts of both queue pairs and
	// the time wait follow from it.
	PacketLifeTime uint8

	// RemoteResponseTimeout limits the time of the peer's answers, LocalResponseTimeout that
	// of this end's, as exponents to 4.096 µs, at most 31; 0 means DefaultResponseTimeout.
	RemoteResponseTimeout, LocalResponseTimeout uint8

	// Retries is how often an unanswered message is sent again, at most 15; 0 is
	// DefaultRetries.
	Retries uint8

	Private []byte // at most 92 bytes, copied

	// PeerToPeer makes one connection out of this request and a crossing one of the peer for
	// the same service ID (IBTA 12.10.4). The end with the smaller GUID, or at equal GUIDs the
	// smaller QPN, becomes the passive one and gets EventReqReceived. A peer that has not sent
	// its request yet is asked again.
	PeerToPeer bool

	Context any // Conn.Context
}

// AcceptParams are the parameters of Accept.
type AcceptParams struct {
	QPN                uint32  // of the local queue pair, 24 bits
	PSN                psn.PSN // that the peer's requests start with, 24 bits; 0 is Attr's
	ResponderResources uint8   // of this end, as in ConnectParams
	InitiatorDepth     uint8
	RNRRetryCount      uint8 // 0 to 7: of the peer's queue pair
	AckDelay           uint8 // 5 bits: how long this end may take to acknowledge, if longer than Config.AckDelay
	FlowControl        bool
	SRQ                bool
	Private            []byte // at most 196 bytes, copied
}

// SIDRParams are the parameters of Resolve.
type SIDRParams struct {
	Service mad.ServiceID
	Path    qp.Path       // to the peer
	PKey    uint16        // on an InfiniBand fabric; 0 is the default partition
	Timeout time.Duration // of one answer; 0 means that of DefaultResponseTimeout
	Retries uint8         // at most 15; 0 is DefaultRetries
	Private []byte        // at most 216 bytes, copied
	Context any           // Lookup.Context
}

// SIDRReply holds the parameters of Inquiry.Reply.
type SIDRReply struct {
	Status  mad.SIDRStatus // QPN and QKey are only valid for SIDRSuccess
	QPN     uint32         // 24 bits
	QKey    uint32
	Info    []byte // at most 72 bytes
	Private []byte // at most 136 bytes
}
