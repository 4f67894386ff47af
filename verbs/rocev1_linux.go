package verbs

import (
	"errors"
	"fmt"
	"syscall"

	"softrdma/internal/frame"
	"softrdma/internal/frame/rocev1"
	"softrdma/internal/host"
	"softrdma/internal/link/packet"
	"softrdma/internal/link/udp"
	"softrdma/internal/steering"
	"softrdma/internal/unixmsg"
)

// openRoCEv1 opens the Ethernet frames of a device's lanes.
func (s *Stack) openRoCEv1(c *host.Choice, cfg *Config, lanes int) (l links, err error) {
	if s.reg().Find(c.Addr) != nil {
		return l, fmt.Errorf("GID %v is in use by another RoCE v1 device of this process: %w", c.Addr.Addr(), syscall.EADDRINUSE)
	}
	l.share = steering.Whole(lanes)
	if cfg.Shared {
		l.share.Of = sharedLanes
	}
	opened, err := packet.Open(packetConfig(c, cfg), lanes)
	if err != nil {
		return l, rightError(err, c)
	}
	if cfg.Shared {
		l.slots = &ethernetSlots{steering.NewLending(lanes, sharedLanes), opened[0]}
	}
	l.networks, err = ethernetNetworks(c, l.share, opened)
	return l, err
}

// ethernetSlots are the lanes of a GID that programs share, each of which has a socket of its own.
type ethernetSlots struct {
	*steering.Lending
	owner *packet.Link
}

// Take implements slots.
func (s *ethernetSlots) Take() (lane int, fds []int, err error) {
	if lane, err = s.Lending.Take(); err != nil {
		return 0, nil, err
	}
	fd, err := s.owner.CopyClaim()
	if err != nil {
		s.Give(lane)
		return 0, nil, err
	}
	return lane, []int{fd}, nil
}

// Key implements slots. There is none: each frame comes to the socket of its lane, so programs hand
// none over.
func (s *ethernetSlots) Key() (none [16]byte) { return none }

// Close implements slots.
func (s *ethernetSlots) Close() {}

// openRoCEv1Slot opens the Ethernet frames of a lane that a daemon has lent.
func openRoCEv1Slot(fds unixmsg.Descriptors, c *host.Choice, cfg *Config, share steering.Share) ([]frame.Network, error) {
	if len(fds) != 1 {
		fds.Close()
		return nil, fmt.Errorf("expected 1 descriptor of a shared GID, found %d: %w", len(fds), syscall.EPROTO)
	}
	if err := udp.CheckNetwork(fds[0]); err != nil {
		fds.Close()
		return nil, err
	}
	l, err := packet.OpenSlot(fds[0], packetConfig(c, cfg))
	if err != nil {
		return nil, rightError(err, c)
	}
	return ethernetNetworks(c, share, []*packet.Link{l})
}

func packetConfig(c *host.Choice, cfg *Config) packet.Config {
	return packet.Config{
		Interface: c.Interface.Name, EtherType: rocev1.EtherType, MaxFrame: rocev1.MaxFrame(host.MTUFor(c.Interface.MTU)),
		ReceiveBuffer: cfg.ReceiveBuffer, SendBuffer: cfg.SendBuffer,
		Claim: fmt.Sprintf("softrdma/roce1/%d/%v", c.Interface.Index, c.Addr.Addr().WithZone("")),
	}
}

// rightError adds the way out to the error of a process that may not send frames.
func rightError(err error, c *host.Choice) error {
	if errors.Is(err, packet.ErrRight) {
		return fmt.Errorf("%w; RoCE v2 works without it: open %q", err, c.Addr.Addr())
	}
	return err
}

// ethernetNetworks makes the networks of links, and closes these if it fails.
func ethernetNetworks(c *host.Choice, share steering.Share, opened []*packet.Link) ([]frame.Network, error) {
	networks, err := rocev1.Networks(c.Addr.Addr(), share, opened)
	if err != nil {
		for _, l := range opened {
			_ = l.Close()
		}
	}
	return networks, err
}
