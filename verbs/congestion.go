package verbs

import (
	"errors"
	"fmt"

	"softrdma/internal/congestion"
	"softrdma/internal/provider"
)

// A CongestionControl is the name of how a connection finds out how much it may
// send, and how fast. Each end controls what it sends by itself. The empty name
// leaves the choice to the device, and a device's to CongestionWindow.
//
// An unreliable connection has no acknowledges, only notifications: it takes
// CongestionDCQCN or CongestionNone, and on a device with CongestionWindow the
// former, with CongestionDelay the latter. Datagrams have no control.
type CongestionControl string

// The controls.
const (
	// CongestionWindow halves a window of bytes in flight when packets are lost
	// while others wait on the path, when many are lost, and for congestion
	// notifications (ECN marks, annex A17.9.3). Losses by accident do not slow it
	// down. It needs nothing of the network, and bounds what floods the socket
	// buffer of a slow receiver.
	CongestionWindow CongestionControl = "window"

	// CongestionDCQCN paces packets at a rate that follows congestion
	// notifications, as RDMA adapters do it. It is for networks whose switches
	// mark (RFC 3168); without marks it behaves as CongestionWindow.
	CongestionDCQCN CongestionControl = "dcqcn"

	// CongestionDelay aims at a small queue, by the time that acknowledges take.
	// It needs no marks, keeps queues short, and grows slowly on paths that lose
	// many packets by accident.
	CongestionDelay CongestionControl = "delay"

	// CongestionNone sends whatever Config.Window allows.
	CongestionNone CongestionControl = "none"
)

// A Recovery is the name of how a reliable connection makes up for lost
// packets. The empty name leaves the choice to the device, and a device's to
// SelectiveRepeat.
type Recovery string

const (
	// SelectiveRepeat sends what was lost again and nothing else, where the peer
	// is a softrdma that does so too. Other peers never notice, and get GoBackN.
	SelectiveRepeat Recovery = "selective-repeat"

	// GoBackN sends everything from a lost packet on again, as the standard has
	// it (IBTA 9.7.5.1).
	GoBackN Recovery = "go-back-n"
)

// ParseCongestionControl checks a name; the error tells which there are.
func ParseCongestionControl(name string) (CongestionControl, error) {
	_, err := congestion.ParseKind(name)
	return CongestionControl(name), err
}

// ParseRecovery checks a name; the error tells which there are.
func ParseRecovery(name string) (Recovery, error) {
	_, err := congestion.ParseRecovery(name)
	return Recovery(name), err
}

// transmission checks both names, for a device or a queue pair.
func transmission(c CongestionControl, r Recovery) (congestion.Kind, congestion.Recovery, error) {
	k, err := congestion.ParseKind(string(c))
	if err != nil {
		return 0, 0, err
	}
	w, err := congestion.ParseRecovery(string(r))
	return k, w, err
}

// refuseTransmission tells that there is no choice of either.
func refuseTransmission(what string, c CongestionControl, r Recovery) error {
	if c == "" && r == "" {
		return nil
	}
	return fmt.Errorf("%s: expected no congestion control and no recovery, found %q and %q: %w", what, c, r, errors.ErrUnsupported)
}

// transmission takes the queue pair's choice over.
func (c *QPConfig) transmission(p Protocol, a *provider.QPConfig) (err error) {
	if a.Control, a.Recovery, err = transmission(c.Congestion, c.Recovery); err != nil {
		return err
	}
	if a.PeerTimeout, a.PeerProbe = c.PeerTimeout, c.PeerProbe; (c.PeerTimeout != 0 || c.PeerProbe != 0) && c.Type != RC {
		return fmt.Errorf("PeerTimeout is a reliable connection's, found %v: %w", c.Type, errors.ErrUnsupported)
	}
	switch {
	case p == IWARP:
		return refuseTransmission("iWARP leaves both to TCP", c.Congestion, c.Recovery)
	case c.Type == UD:
		return refuseTransmission("UD has neither", c.Congestion, c.Recovery)
	case c.Type == UC && c.Recovery != "":
		return fmt.Errorf("UC loses what is lost: expected no recovery, found %q: %w", c.Recovery, errors.ErrUnsupported)
	case c.Type == UC && (c.Congestion == CongestionWindow || c.Congestion == CongestionDelay):
		return fmt.Errorf("UC has no acknowledges: expected congestion control %s or %s, found %q: %w",
			CongestionDCQCN, CongestionNone, c.Congestion, errors.ErrUnsupported)
	}
	return nil
}
