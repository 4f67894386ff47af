package verbs

import (
	"errors"
	"fmt"
	"syscall"

	"softrdma/internal/frame"
	"softrdma/internal/frame/rocev1"
	"softrdma/internal/host"
	"softrdma/internal/link/packet"
)

// openRoCEv1 opens the Ethernet frames of a device's lanes.
func (s *Stack) openRoCEv1(c *host.Choice, cfg *Config, lanes int) ([]frame.Network, error) {
	if s.reg.Find(c.Addr) != nil {
		return nil, fmt.Errorf("GID %v is in use by another RoCE v1 device of this process: %w", c.Addr.Addr(), syscall.EADDRINUSE)
	}
	links, err := packet.Open(packet.Config{
		Interface: c.Interface.Name, EtherType: rocev1.EtherType, MaxFrame: rocev1.MaxFrame(host.MTUFor(c.Interface.MTU)),
		ReceiveBuffer: cfg.ReceiveBuffer, SendBuffer: cfg.SendBuffer,
		Claim: fmt.Sprintf("softrdma/roce1/%d/%v", c.Interface.Index, c.Addr.Addr().WithZone("")),
	}, lanes)
	if errors.Is(err, packet.ErrRight) {
		return nil, fmt.Errorf("%w; RoCE v2 works without it: open %q", err, c.Addr.Addr())
	}
	if err != nil {
		return nil, err
	}
	networks, err := rocev1.Networks(c.Addr.Addr(), links)
	if err != nil {
		for _, l := range links {
			_ = l.Close()
		}
		return nil, err
	}
	return networks, nil
}
