package cm

import (
	"time"

	"softrdma/internal/psn"
	"softrdma/internal/qp"
	"softrdma/internal/reason"
	"softrdma/internal/wire/mad"
)

// hopLimit is the hop limit in a REQ if the path has none.
const hopLimit = 64

// limit is a parameter with the greatest value that its field holds.
type limit struct {
	field          string
	value, maximum uint64
}

func within(op string, limits ...limit) error {
	for _, l := range limits {
		if l.value > l.maximum {
			return &Error{op, l.field, reason.Detail{Reason: reason.CMParameter, Expected: l.maximum, Found: l.value}}
		}
	}
	return nil
}

func (p *ConnectParams) check(m *Manager) error {
	const op = "connect"
	c := &m.config
	if p.Type != 0 && p.Type != qp.RC && p.Type != qp.UC {
		return &Error{op, "Type", reason.Detail{Reason: reason.CMTransport, Expected: uint64(mad.TransportUC), Found: uint64(p.Type)}}
	}
	if !p.Path.Dst.IsValid() || p.Path.Dst.Addr().Unmap().Is4() != c.Local.Addr().Unmap().Is4() {
		return &Error{op, "Path", reason.Detail{Reason: reason.CMGID, Expected: low(c.Local.Addr()), Found: low(p.Path.Dst.Addr())}}
	}
	if p.PathMTU != 0 && (mad.MTUFrom(p.PathMTU) == 0 || p.PathMTU > c.MTU) {
		return &Error{op, "PathMTU", reason.Detail{Reason: reason.CMMTU, Expected: uint64(c.MTU), Found: uint64(p.PathMTU)}}
	}
	if err := m.checkPKey(op, p.PKey); err != nil {
		return err
	}
	if err := privateFits(op, "Private", len(p.Private), mad.REQPrivateLen); err != nil {
		return err
	}
	return within(op,
		limit{"QPN", uint64(p.QPN), 0xffffff}, limit{"PSN", uint64(p.PSN), 0xffffff},
		limit{"RetryCount", uint64(p.RetryCount), 7}, limit{"RNRRetryCount", uint64(p.RNRRetryCount), 7},
		limit{"PacketLifeTime", uint64(p.PacketLifeTime), 30}, limit{"Retries", uint64(p.Retries), 15},
		limit{"RemoteResponseTimeout", uint64(p.RemoteResponseTimeout), 31},
		limit{"LocalResponseTimeout", uint64(p.LocalResponseTimeout), 31},
		limit{"Path.FlowLabel", uint64(p.Path.FlowLabel), 0xfffff})
}

// or returns v, or the default for zero.
func or[T ~uint8 | ~uint16 | ~uint32 | ~int](v, zero T) T {
	if v == 0 {
		return zero
	}
	return v
}

// Connect requests a connection from a peer: it sends the REQ (IBTA 12.9.5). The error is an
// *Error.
func (m *Manager) Connect(now time.Duration, p *ConnectParams) (*Conn, error) {
	if err := p.check(m); err != nil {
		return nil, err
	}
	cross := crossKey{m.home(p.Path.Dst), p.Service}
	if p.PeerToPeer && m.crossing[cross] != nil {
		return nil, &Error{"connect", "PeerToPeer", reason.Detail{Reason: reason.CMServiceBusy, Expected: 0, Found: uint64(p.Service)}}
	}
	lifeTime := or(p.PacketLifeTime, DefaultPacketLifeTime)
	c := m.newConn()
	c.Context = p.Context
	c.path, c.reach = p.Path, m.route(&p.Path, p.PKey)
	c.service, c.tid = p.Service, m.config.transaction(c.localID)
	c.kind = or(p.Type, qp.RC)
	c.localQPN, c.recvPSN = p.QPN, or(p.PSN, psn.New(m.config.Random()))
	c.mtu = mad.MTUFrom(or(p.PathMTU, m.config.MTU))
	c.resources, c.depth = p.ResponderResources, p.InitiatorDepth
	c.retryCount, c.rnrRetry = p.RetryCount, p.RNRRetryCount
	c.retries = or(p.Retries, DefaultRetries)
	// A request and its answer may each spend the packet life time in the network.
	c.timeout = 2*duration(lifeTime) + duration(or(p.RemoteResponseTimeout, DefaultResponseTimeout))
	c.ack = lifeTime + 1
	if p.PeerToPeer {
		m.crossing[cross] = c
		c.peerToPeer = true
	}
	c.state = ReqSent
	c.askEarly(now, m.newREQ(c, p, lifeTime))
	return c, nil
}

func (m *Manager) newREQ(c *Conn, p *ConnectParams, lifeTime uint8) *[mad.Len]byte {
	q := mad.REQ{
		LocalID:               c.localID,
		Service:               p.Service,
		GUID:                  m.config.GUID,
		Announcement:          mad.Announce(m.config.Local.Port()),
		QPN:                   p.QPN,
		ResponderResources:    p.ResponderResources,
		InitiatorDepth:        p.InitiatorDepth,
		RemoteResponseTimeout: or(p.RemoteResponseTimeout, DefaultResponseTimeout),
		LocalResponseTimeout:  or(p.LocalResponseTimeout, DefaultResponseTimeout),
		FlowControl:           p.FlowControl,
		StartingPSN:           c.recvPSN,
		RetryCount:            p.RetryCount,
		RNRRetryCount:         p.RNRRetryCount,
		PKey:                  or(p.PKey, defaultPKey),
		MTU:                   c.mtu,
		MaxCMRetries:          c.retries,
		SRQ:                   p.SRQ,
		Primary: mad.Path{
			LocalGID:     m.gid,
			RemoteGID:    mad.GIDFrom(p.Path.Dst.Addr()),
			FlowLabel:    p.Path.FlowLabel,
			TrafficClass: p.Path.TrafficClass,
			HopLimit:     or(p.Path.HopLimit, hopLimit),
			AckTimeout:   ackTimeout(m.config.AckDelay, lifeTime),
		},
	}
	if c.kind == qp.UC {
		q.Transport = mad.TransportUC
	}
	// RoCE has no LIDs. Linux sets them to the permissive LID on a path that may be routed,
	// and to zero on one that stays in its subnet.
	if m.port != nil {
		m.port.requestPath(&q.Primary, p)
	} else if q.Primary.HopLimit > 1 {
		q.Primary.LocalLID, q.Primary.RemoteLID = mad.PermissiveLID, mad.PermissiveLID
	} else {
		q.Primary.SubnetLocal = true
	}
	copy(q.Private[:], p.Private)
	d := m.message(mad.AttrREQ, c.tid, &q)
	return d
}
