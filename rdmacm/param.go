package rdmacm

import (
	"fmt"
	"net/netip"

	"softrdma/internal/cmid"
	"softrdma/internal/qp"
	"softrdma/internal/reason"
	"softrdma/verbs"
)

// A PortSpace is a set of port numbers and the service behind them. The numbers are
// those of rdma_port_space.
type PortSpace uint16

// The port spaces.
const (
	PortSpaceTCP PortSpace = 0x0106 // reliable connections
	PortSpaceUDP PortSpace = 0x0111 // datagrams: a lookup gives the peer's queue pair
	PortSpaceIB  PortSpace = 0x013f // any service

	// PortSpaceIPoIB has datagrams in the groups, and with the Q_Key, of IP over InfiniBand. Ids of
	// it need a port of an InfiniBand fabric, and listen at its address.
	PortSpaceIPoIB PortSpace = 0x0002
)

// String returns the short name, as "TCP".
func (p PortSpace) String() string { return cmid.PortSpace(p).String() }

// DefaultReadAtomic is how many READs and atomics of either side may be in flight
// if a ConnParam does not say.
const DefaultReadAtomic = 16

// Zero means 0 in those fields of a ConnParam where 0 means a default.
const Zero uint8 = 0xfe

// A ConnParam holds what the two ends of a connection tell each other (rdma_conn_param). The
// zero value suits most programs. In an event or a Request it holds the peer's values, and 0
// means 0.
type ConnParam struct {
	// PrivateData goes to the peer with the request, the reply or the datagram
	// lookup: see the constants MaxPrivate…. It arrives padded with zeros.
	PrivateData []byte

	// ResponderResources is how many READs and atomics of the peer may be in
	// flight, InitiatorDepth how many of this side, at most verbs.MaxReadAtomic.
	// Zero means none, 0 means DefaultReadAtomic. When accepting, 0 means as many
	// as the peer asked for; larger values are reduced to that.
	ResponderResources, InitiatorDepth uint8

	// FlowControl announces end-to-end flow control. Shared receive queues
	// cannot have it.
	FlowControl bool

	// RetryCount is how often a queue pair retransmits without an answer, 1 to 7;
	// 0 means 7, Zero never. The client decides it; accepting ignores it.
	RetryCount uint8

	// RNRRetryCount is how often the peer retries when this side had no receive
	// posted, 1 to 6; 7 retries without end; 0 means 7, Zero never.
	RNRRetryCount uint8

	// AckDelay is sent when accepting over RoCE or InfiniBand: this side may take 4.096 µs times 2 to
	// its power to acknowledge (IBTA 12.6.8), at most 31. The peer's queue pair waits at least that
	// long before it retries or, if the client asked for no retries, fails. Values below the device's
	// change nothing.
	AckDelay uint8

	// SRQ and QPN describe a queue pair that the program moves through its states
	// itself (see ID.InitAttr). They are ignored if the id has a queue pair.
	SRQ bool
	QPN uint32
}

// Limits of private data in the messages of an id (annex A11.3.2).
const (
	MaxPrivateRequest = 56  // Dial, Connect in PortSpaceTCP: 92 less the 36 bytes of the addresses
	MaxPrivateAccept  = 196 // Accept in PortSpaceTCP
	MaxPrivateReject  = 148 // Reject in PortSpaceTCP
	MaxPrivateLookup  = 180 // Lookup, Connect in PortSpaceUDP: 216 less 36
	MaxPrivateAnswer  = 136 // Accept and Reject in PortSpaceUDP
)

// A UDParam says where to send datagrams (rdma_ud_param). It is the result of a
// lookup or of joining a multicast group.
type UDParam struct {
	PrivateData []byte              // the peer's
	AV          verbs.AddressVector // for verbs.PD.CreateAH
	QPN         uint32              // for verbs.SendWR.RemoteQPN
	QKey        uint32              // for verbs.SendWR.RemoteQKey
}

// orDefault reads a field of a ConnParam whose 0 means a default.
func orDefault(v, def uint8) uint8 {
	switch v {
	case 0:
		return def
	case Zero:
		return 0
	}
	return v
}

// request returns the parameters of a request or lookup.
func (p *ConnParam) request(ps PortSpace) (*cmid.ConnParam, error) {
	limit := MaxPrivateRequest
	if ps == PortSpaceUDP {
		limit = MaxPrivateLookup
	}
	c, err := p.manager(limit)
	if err != nil {
		return nil, err
	}
	c.ResponderResources = orDefault(p.ResponderResources, DefaultReadAtomic)
	c.InitiatorDepth = orDefault(p.InitiatorDepth, DefaultReadAtomic)
	return c, checkReadAtomic(c)
}

// accept makes the parameters of the answer to a request: never more than it
// asked for (IBTA 12.7.29, 12.7.30), since more would not be kept.
func (p *ConnParam) accept(ps PortSpace, asked *ConnParam) (*cmid.ConnParam, error) {
	limit := MaxPrivateAccept
	if ps == PortSpaceUDP {
		limit = MaxPrivateAnswer
	}
	c, err := p.manager(limit)
	if err != nil {
		return nil, err
	}
	c.ResponderResources = orDefault(p.ResponderResources, min(asked.ResponderResources, verbs.MaxReadAtomic))
	c.InitiatorDepth = orDefault(p.InitiatorDepth, min(asked.InitiatorDepth, verbs.MaxReadAtomic))
	if err := checkReadAtomic(c); err != nil {
		return nil, err
	}
	c.ResponderResources = min(c.ResponderResources, asked.ResponderResources)
	c.InitiatorDepth = min(c.InitiatorDepth, asked.InitiatorDepth)
	return c, nil
}

// manager returns the parameters that requests and answers share.
func (p *ConnParam) manager(limit int) (*cmid.ConnParam, error) {
	if err := checkPrivate(p.PrivateData, limit); err != nil {
		return nil, err
	}
	c := &cmid.ConnParam{
		PrivateData: p.PrivateData, FlowControl: p.FlowControl, SRQ: p.SRQ, QPN: p.QPN,
		RetryCount: orDefault(p.RetryCount, 7), RNRRetryCount: orDefault(p.RNRRetryCount, 7), AckDelay: p.AckDelay,
	}
	switch {
	case c.RetryCount > 7:
		return nil, reason.BadArgument(7, uint64(c.RetryCount), "retry count: expected 0 to 7, found %d", c.RetryCount)
	case c.RNRRetryCount > 7:
		return nil, reason.BadArgument(7, uint64(c.RNRRetryCount), "RNR retry count: expected 0 to 7, found %d", c.RNRRetryCount)
	case c.AckDelay > 31:
		return nil, reason.BadArgument(31, uint64(c.AckDelay), "acknowledge delay: expected 0 to 31, found %d", c.AckDelay)
	case c.QPN >= 1<<24:
		return nil, reason.BadArgument(1<<24-1, uint64(c.QPN), "queue pair number: expected 24 bits, found %#x", c.QPN)
	}
	return c, nil
}

func checkPrivate(b []byte, limit int) error {
	if len(b) > limit {
		return &reason.Error{
			Detail: reason.Detail{Reason: reason.CMPrivateData, Expected: uint64(limit), Found: uint64(len(b))},
			Text:   fmt.Sprintf("%v: expected at most %d bytes, found %d", ErrPrivateData, limit, len(b)),
			Cause:  ErrPrivateData,
		}
	}
	return nil
}

func checkReadAtomic(c *cmid.ConnParam) error {
	switch {
	case c.ResponderResources > verbs.MaxReadAtomic:
		return reason.BadArgument(verbs.MaxReadAtomic, uint64(c.ResponderResources), "responder resources: expected at most %d, found %d", verbs.MaxReadAtomic, c.ResponderResources)
	case c.InitiatorDepth > verbs.MaxReadAtomic:
		return reason.BadArgument(verbs.MaxReadAtomic, uint64(c.InitiatorDepth), "initiator depth: expected at most %d, found %d", verbs.MaxReadAtomic, c.InitiatorDepth)
	}
	return nil
}

// connParam converts the parameters of an event.
func connParam(c *cmid.ConnParam) ConnParam {
	return ConnParam{
		PrivateData: c.PrivateData, ResponderResources: c.ResponderResources, InitiatorDepth: c.InitiatorDepth,
		FlowControl: c.FlowControl, RetryCount: c.RetryCount, RNRRetryCount: c.RNRRetryCount, SRQ: c.SRQ, QPN: c.QPN,
	}
}

// udParam converts the datagram address of an event, without its path.
func udParam(u *cmid.UDParam) UDParam {
	return UDParam{PrivateData: u.PrivateData, QPN: u.QPN, QKey: u.QKey}
}

// addressVector converts a path of the id's device for package verbs.
func (id *ID) addressVector(p *qp.Path) verbs.AddressVector {
	if !p.Dst.IsValid() {
		return verbs.AddressVector{}
	}
	v := verbs.AddressVector{
		SGIDIndex: p.SGIDIndex, FlowLabel: p.FlowLabel, HopLimit: p.HopLimit, TrafficClass: p.TrafficClass,
		ServiceLevel: p.ServiceLevel, PathBits: p.PathBits,
	}
	fabric := id.speaks(verbs.InfiniBand)
	if fabric {
		v.DLID = p.LID()
	} else {
		v.UDPPort = p.Dst.Port()
	}
	if !fabric || p.Global() {
		v.DGID = verbs.GIDFrom(p.Dst.Addr().WithZone(""))
	}
	return v
}

// sameFamily reports whether two addresses can be ends of one connection.
func sameFamily(a, b netip.Addr) bool { return a.Unmap().Is4() == b.Unmap().Is4() }
