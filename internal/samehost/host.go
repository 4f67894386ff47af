package samehost

import (
	"net/netip"
	"sync"
	"time"

	"softrdma/internal/link/hostmem"
	"softrdma/internal/memory"
	"softrdma/internal/reason"
)

// MaxLanes is the largest number of lanes of a device. A message carries one descriptor per
// lane, and the system limits descriptors per message.
const MaxLanes = 64

// A Config describes a device. Kind, Local, Lanes, Bell, Attach and Detach are required.
type Config struct {
	// Dir is the directory of this host's devices. The default is $SOFTRDMA_HOST_DIR, else
	// /run/softrdma/host for root, and $XDG_RUNTIME_DIR/softrdma/host or
	// /tmp/softrdma-host-UID for other users.
	Dir string

	Kind  string         // frame format: "RoCE v2"
	Local netip.AddrPort // address of the device in packets
	Lanes int            // at most MaxLanes

	// First and Of select the lanes of this device: Lanes of the Of lanes of the address,
	// starting at First. Devices of other processes have the others. Of is 0 if this device
	// has all lanes.
	First, Of int

	// Mode is Auto or Require. Open refuses Off.
	Mode Mode

	// Stack is equal for devices that reach each other within their process. They use the
	// memory path only if one of them requires it. The default stands for the process.
	Stack uint64

	// Allow lists users besides this process's own: names, numbers, or "all".
	Allow []string

	// Bell makes a bell of a lane. The channel's Owner is the owner passed here.
	Bell func(lane int, owner any) (*hostmem.Bell, error)

	// Attach is called when a channel is ready for use, before the peer may send on it. Detach
	// is called once afterwards, when the peer has gone or the channel was closed. Once Detach
	// returns, no lane may use the channel's memory or call Far.Ring or Far.Segment, because
	// the memory is then unmapped. Both are called without locks.
	Attach, Detach func(*hostmem.Channel)

	// Barrier returns when no lane uses a slice that Far.Segment returned before the call.
	// Segments that the peer has withdrawn are then unmapped. If Barrier is nil, they stay
	// mapped until the channel ends. A lane uses such slices only while it is locked.
	Barrier func()

	// Refused, if not nil, is called for each segment of a peer that this process does not
	// map. The channel stays usable.
	Refused func(reason.Detail)

	// Locate returns the segment that a region covers, and the offset of an address in it, if
	// peers may read the region by its R_Key. If Locate is nil, peers have no views of this
	// device's memory.
	Locate func(key uint32, addr uint64) (s *memory.Segment, offset uint64, ok bool)

	acceptTimeout time.Duration // of a dialer's part in a handshake; 0 means the default
}

// A View is a read-only mapping of a peer's memory.
type View struct {
	bytes []byte
	close func() error
	once  sync.Once
	err   error
}

// Bytes returns the memory, which must not be used after Close.
func (v *View) Bytes() []byte { return v.bytes }

// Close ends the view. A second Close does nothing.
func (v *View) Close() error {
	v.once.Do(func() { v.err = v.close() })
	return v.err
}

// unshared returns the error for memory that has no view.
func unshared() error {
	return reason.NotSupported("a view of memory that is not shared: expected a region over a whole allocation of at least 16 KiB, for peers on this host to read")
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
