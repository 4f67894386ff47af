package verbs

import (
	"softrdma/internal/congestion"
	"softrdma/internal/provider"
	"softrdma/internal/reason"
)

// A CongestionControl names the algorithm that decides how much a connection may
// send and how fast. Each end controls its own sending. The empty name means the
// device's choice. The choice of a device is CongestionWindow, and CongestionPath
// between softrdma ends whose round trip is longer than a millisecond.
//
// Besides the names below there are "timely", "swift", "bounded" and "hpcc", for
// comparison: the published controls TIMELY (SIGCOMM 2015), Swift (SIGCOMM 2020),
// IRN's bound of what is in flight (SIGCOMM 2018) and HPCC (SIGCOMM 2019). None of
// them needs marks. HPCC follows what the switches of the path say of their links, in
// Ethernet fabrics in software, between softrdma ends with SelectiveRepeat. Elsewhere
// it is CongestionWindow without a reaction to marks.
//
// An unreliable connection has congestion notifications but no acknowledges. It
// can have CongestionDCQCN or CongestionNone. On a device whose control obeys
// marks (CongestionWindow, CongestionDCQCN, CongestionPath) its default is the
// former, on others the latter. Datagrams have no congestion control.
type CongestionControl string

// The algorithms.
const (
	// CongestionWindow bounds the bytes in flight by a congestion window. It
	// halves the window when packets are lost while others queue on the path,
	// when many are lost, and for congestion notifications (ECN marks, annex
	// A17.9.3). Accidental losses do not slow it down. It needs no support by the
	// network.
	CongestionWindow CongestionControl = "window"

	// CongestionDCQCN paces packets at a rate that follows congestion
	// notifications, as RDMA adapters do. It is for networks whose switches mark
	// packets (RFC 3168). Without marks it behaves like CongestionWindow.
	CongestionDCQCN CongestionControl = "dcqcn"

	// CongestionDelay keeps queues on the path short: it measures the time that
	// acknowledges take. It needs no marks. On paths with many accidental losses
	// its window grows slowly.
	CongestionDelay CongestionControl = "delay"

	// CongestionPath models a path with a queue of its own, as BBR does for TCP: it
	// measures how much the path delivers and how long its round trip is without a
	// queue, and sends at that rate. Accidental losses do not slow it down. It is for
	// paths longer than a millisecond, where a device that chooses nothing uses it
	// between softrdma ends.
	CongestionPath CongestionControl = "path"

	// CongestionNone sends as much as Config.Window allows.
	CongestionNone CongestionControl = "none"
)

// A Recovery names how a reliable connection retransmits lost packets. The empty
// name means the device's choice; the choice of a device is SelectiveRepeat.
type Recovery string

const (
	// SelectiveRepeat retransmits only what was lost if the peer is a softrdma
	// that does so too. With other peers it falls back to GoBackN, and they do not
	// notice.
	SelectiveRepeat Recovery = "selective-repeat"

	// GoBackN retransmits everything from the lost packet on, as the standard says
	// (IBTA 9.7.5.1).
	GoBackN Recovery = "go-back-n"
)

// ParseCongestionControl checks a name. The error lists the names.
func ParseCongestionControl(name string) (CongestionControl, error) {
	_, err := parseKind(name)
	return CongestionControl(name), err
}

// ParseRecovery checks a name. The error lists the names.
func ParseRecovery(name string) (Recovery, error) {
	_, err := parseRecovery(name)
	return Recovery(name), err
}

func parseKind(name string) (congestion.Kind, error) {
	k, err := congestion.ParseKind(name)
	if err != nil {
		return 0, reason.BadArgument(0, 0, "%v", err)
	}
	return k, nil
}

func parseRecovery(name string) (congestion.Recovery, error) {
	r, err := congestion.ParseRecovery(name)
	if err != nil {
		return 0, reason.BadArgument(0, 0, "%v", err)
	}
	return r, nil
}

// transmission checks both names, for a device or a queue pair.
func transmission(c CongestionControl, r Recovery) (congestion.Kind, congestion.Recovery, error) {
	k, err := parseKind(string(c))
	if err != nil {
		return 0, 0, err
	}
	w, err := parseRecovery(string(r))
	return k, w, err
}

// refuseTransmission returns an error unless both names are empty.
func refuseTransmission(what string, c CongestionControl, r Recovery) error {
	if c == "" && r == "" {
		return nil
	}
	return reason.NotSupported("%s: expected no congestion control and no recovery, found %q and %q", what, c, r)
}

// transmission checks the choices of a queue pair and sets them.
func (c *QPConfig) transmission(p Protocol, a *provider.QPConfig) (err error) {
	if a.Control, a.Recovery, err = transmission(c.Congestion, c.Recovery); err != nil {
		return err
	}
	if a.PeerTimeout, a.PeerProbe = c.PeerTimeout, c.PeerProbe; (c.PeerTimeout != 0 || c.PeerProbe != 0) && c.Type != RC && c.Type != XRCSend {
		return reason.NotSupported("PeerTimeout: expected a queue pair of type RC or XRC_SEND, found %v", c.Type)
	}
	switch {
	case p == IWARP:
		return refuseTransmission("iWARP leaves both to TCP", c.Congestion, c.Recovery)
	case c.Type == UD:
		return refuseTransmission("UD has neither", c.Congestion, c.Recovery)
	case c.Type == XRCSend && a.Recovery == congestion.SelectiveRepeat:
		return reason.NotSupported("XRC has no selective acknowledges: expected recovery %s, found %q", GoBackN, c.Recovery)
	case c.Type == UC && c.Recovery != "":
		return reason.NotSupported("UC does not retransmit: expected no recovery, found %q", c.Recovery)
	case c.Type == UC && c.Congestion != "" && c.Congestion != CongestionDCQCN && c.Congestion != CongestionNone:
		return reason.NotSupported("UC has no acknowledges: expected congestion control %s or %s, found %q",
			CongestionDCQCN, CongestionNone, c.Congestion)
	}
	return nil
}
