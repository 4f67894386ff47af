package cm

import (
	"net/netip"
	"time"

	"softrdma/internal/psn"
	"softrdma/internal/qp"
	"softrdma/internal/wire/mad"
)

// The values that zero parameters stand for, as in Linux's rdma_cm.
const (
	DefaultResponseTimeout = 20 // 4.3 s
	DefaultRetries         = 15
	DefaultPacketLifeTime  = 16 // 0.27 s
	DefaultMRATimeout      = 24 // 69 s: what Linux's rdma_cm gives Delay, with DelayOnDuplicate
)

// DelayOnDuplicate in a service timeout given to Delay sends the MRA only when the
// message comes a second time, since most answers are quick.
const DelayOnDuplicate = 0x80

// ConnectParams is what Connect asks for.
type ConnectParams struct {
	Service mad.ServiceID
	Path    qp.Path // to the peer; the peer is told HopLimit 64 for 0
	Type    qp.Type // RC (also for 0) or UC
	QPN     uint32  // of the own queue pair, 24 bits
	PSN     psn.PSN // that the peer's requests start with, 24 bits; 0 draws one

	// On an InfiniBand fabric: the peer's GID, unless the path names it, the partition, and
	// the rate of the path as an administrator's path record has it. A PKey of 0 is the
	// default partition.
	RemoteGID  netip.Addr
	PKey       uint16
	PacketRate uint8 // 6 bits

	PathMTU int // bytes; 0 is the device's

	// ResponderResources is how many READs and ATOMICs the own queue pair serves at a
	// time, InitiatorDepth how many it wants to have in flight.
	ResponderResources, InitiatorDepth uint8

	RetryCount    uint8 // 0 to 7: of both queue pairs
	RNRRetryCount uint8 // 0 to 7: of the peer's queue pair
	FlowControl   bool
	SRQ           bool

	// PacketLifeTime is how long a packet may be in the network, as an exponent to 4.096
	// µs; 0 is DefaultPacketLifeTime. The acknowledge timeouts of both queue pairs and
	// the time wait follow from it.
	PacketLifeTime uint8

	// RemoteResponseTimeout is how long an answer of the peer may take,
	// LocalResponseTimeout how long one of this end: exponents to 4.096 µs, at most 31; 0
	// is DefaultResponseTimeout.
	RemoteResponseTimeout, LocalResponseTimeout uint8

	// Retries is how often an unanswered message is sent again, at most 15; 0 is
	// DefaultRetries.
	Retries uint8

	Private []byte // at most 92 bytes, copied

	// PeerToPeer makes one connection out of this request and one of the peer for the
	// same service ID that crosses it (IBTA 12.10.4). The end whose GUID, or at equal
	// GUIDs whose QPN, is smaller becomes the passive one and gets EventReqReceived. A
	// peer that does not ask yet is asked again.
	PeerToPeer bool

	Context any // Conn.Context
}

// AcceptParams is what Accept answers.
type AcceptParams struct {
	QPN                uint32  // of the own queue pair, 24 bits
	PSN                psn.PSN // that the peer's requests start with, 24 bits; 0 is Attr's
	ResponderResources uint8   // as in ConnectParams: of this end
	InitiatorDepth     uint8
	RNRRetryCount      uint8 // 0 to 7: of the peer's queue pair
	FlowControl        bool
	SRQ                bool
	Private            []byte // at most 196 bytes, copied
}

// SIDRParams is what Resolve asks for.
type SIDRParams struct {
	Service mad.ServiceID
	Path    qp.Path       // to the peer
	PKey    uint16        // on an InfiniBand fabric; 0 is the default partition
	Timeout time.Duration // for one answer; 0 is that of DefaultResponseTimeout
	Retries uint8         // at most 15; 0 is DefaultRetries
	Private []byte        // at most 216 bytes, copied
	Context any           // Lookup.Context
}

// SIDRReply is what Inquiry.Reply answers.
type SIDRReply struct {
	Status  mad.SIDRStatus // SIDRSuccess: QPN and QKey count
	QPN     uint32         // 24 bits
	QKey    uint32
	Info    []byte // at most 72 bytes
	Private []byte // at most 136 bytes
}
