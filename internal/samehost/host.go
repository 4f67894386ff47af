package samehost

import (
	"net/netip"

	"softrdma/internal/link/hostmem"
	"softrdma/internal/reason"
)

// MaxLanes is the largest number of lanes of a device. A message brings a descriptor for
// each, and the system limits those.
const MaxLanes = 64

// A Config is what a device says of itself. Kind, Local, Lanes, Bell, Attach and Detach are
// required.
type Config struct {
	// Dir is the directory of this host's devices. Empty stands for $SOFTRDMA_HOST_DIR,
	// else /run/softrdma/host for root, and for others $XDG_RUNTIME_DIR/softrdma/host or
	// /tmp/softrdma-host-UID.
	Dir string

	Kind  string         // of frames: "RoCE v2"
	Local netip.AddrPort // the device, as packets name it
	Lanes int            // at most MaxLanes

	// First and Of say which lanes of the address they are: Lanes of Of, from First on. Of
	// is 0 for all of them. The others belong to devices of other processes.
	First, Of int

	// Mode is Auto or Require. Open refuses Off.
	Mode Mode

	// Stack is the same for devices that reach each other within their process. They use
	// the memory path only if one of them requires it. 0 stands for the process.
	Stack uint64

	// Allow names users besides this process's own: names, numbers, or "all".
	Allow []string

	// Bell makes a bell of a lane. The channel's Owner is the owner passed here.
	Bell func(lane int, owner any) (*hostmem.Bell, error)

	// Attach is called when a channel is ready for use, before the peer may send on it.
	// Detach is called once afterwards, when the peer has gone or the channel was closed.
	// When Detach returns, no lane uses the channel's memory or calls Far.Ring, Far.Pull or
	// Far.Segment: then the memory is unmapped. Both are called without locks.
	Attach, Detach func(*hostmem.Channel)

	// Barrier returns when no lane uses a slice that Far.Segment returned before the call.
	// Then segments that the peer has withdrawn are unmapped. If Barrier is nil, they stay
	// mapped until the channel ends. A lane uses such slices only while it is locked.
	Barrier func()
}

func (c *Config) check() error {
	switch {
	case c.Mode == Off:
		return reason.Detail{Reason: reason.HostOff, Expected: uint64(Auto), Found: uint64(Off)}.Err()
	case c.Lanes < 1 || c.Lanes > MaxLanes:
		return reason.BadArgument(MaxLanes, uint64(c.Lanes), "memory path with %d lanes: expected 1 to %d", c.Lanes, MaxLanes)
	case c.First < 0 || c.Of > maxOf || c.First+c.Lanes > max(c.Of, c.Lanes):
		return reason.BadArgument(uint64(c.Of), uint64(c.First), "memory path with %d lanes from %d of %d", c.Lanes, c.First, c.Of)
	case !c.Local.IsValid() || c.Kind == "" || len(c.Kind) > maxKind:
		return reason.BadArgument(maxKind, uint64(len(c.Kind)), "memory path of device %v, %q: not an address and a kind of frames", c.Local, c.Kind)
	}
	return nil
}
