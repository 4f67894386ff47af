package verbs

import (
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"softrdma/internal/object"
	"softrdma/internal/qp"
	"softrdma/internal/reason"
	"softrdma/internal/samehost"
)

// SameHost says whether a device exchanges packets with devices of other processes on
// this host through shared memory instead of the network. The empty value means what
// SetSameHost has set.
type SameHost string

// The modes.
const (
	// SameHostAuto uses memory for each peer that it reaches, and the network for all others.
	SameHostAuto SameHost = "auto"

	// SameHostOff uses only the network. Other processes do not find the device.
	SameHostOff SameHost = "off"

	// SameHostRequire uses only memory: connections and address handles to other peers fail
	// with the reason why there is no path. Opening a device fails if it cannot be published.
	SameHostRequire SameHost = "require"
)

// ParseSameHost returns the mode of a name. The error lists the names.
func ParseSameHost(name string) (SameHost, error) {
	m, err := samehost.ParseMode(name)
	return SameHost(m.String()), err
}

// sameHostVariable is the environment variable with the mode of programs that set none.
const sameHostVariable = "SOFTRDMA_SAME_HOST"

// sameHostDefault applies to devices whose Config has no mode or no users.
var sameHostDefault struct {
	sync.Mutex
	mode  SameHost
	allow []string
}

// SetSameHost sets the meaning of an empty Config.SameHost and an empty Config.SameHostAllow
// for devices opened from now on. That includes the devices that packages rdmacm and rdmanet
// open by themselves. An empty mode, which is the default, stands for the environment variable
// SOFTRDMA_SAME_HOST, and if that is empty for SameHostAuto. SetSameHost fails if the host has
// no user of a name.
func SetSameHost(mode SameHost, allow ...string) error {
	if _, err := samehost.ParseMode(string(mode)); err != nil {
		return err
	}
	if err := samehost.CheckUsers(allow); err != nil {
		return err
	}
	sameHostDefault.Lock()
	defer sameHostDefault.Unlock()
	sameHostDefault.mode, sameHostDefault.allow = mode, slices.Clone(allow)
	return nil
}

// sameHost returns the mode and the users of a configuration.
func (c *Config) sameHost() (samehost.Mode, []string, error) {
	sameHostDefault.Lock()
	defer sameHostDefault.Unlock()
	name, allow := or(c.SameHost, sameHostDefault.mode), c.SameHostAllow
	if len(allow) == 0 {
		allow = sameHostDefault.allow
	} else if err := samehost.CheckUsers(allow); err != nil {
		return 0, nil, err
	}
	if name == "" {
		mode, err := samehost.ParseMode(os.Getenv(sameHostVariable))
		if err != nil {
			err = fmt.Errorf("%s: %w", sameHostVariable, err)
		}
		return mode, allow, err
	}
	mode, err := samehost.ParseMode(string(name))
	return mode, allow, err
}

// A hostPath is a device's access to the memory path to other processes on this host.
type hostPath struct {
	mode samehost.Mode
	host *samehost.Host // nil if not published
	why  error          // why it is not published
}

// reachLimit bounds the search for a peer on this host. A peer that does not answer in time is
// taken for stopped, and the network is used. If memory is required, a busy host gets more
// time.
const (
	reachLimit    = 200 * time.Millisecond
	requiredLimit = 5 * time.Second
)

// publish makes the device known to other processes on this host. It fails only if the
// mode requires that.
func (d *Device) publish(o *opening) error {
	d.sameHost.mode = o.mode
	err := d.openHost(o)
	d.sameHost.why = err
	if o.mode == samehost.Require {
		return err
	}
	return nil
}

func (d *Device) openHost(o *opening) (err error) {
	switch {
	case d.sameHost.mode == samehost.Off:
		return reason.Detail{Reason: reason.HostOff, Expected: uint64(samehost.Auto), Found: uint64(samehost.Off)}.Err()
	case d.protocol == IWARP:
		return reason.Detail{Reason: reason.HostTransport, Expected: 1}.Err()
	}
	a := d.local
	d.sameHost.host, err = samehost.Open(samehost.Config{
		Kind: d.protocol.String(), Local: d.Addr(), Lanes: a.Share().Lanes, First: a.Share().First, Of: a.Share().Of, Mode: o.mode, Allow: o.allow, Dir: o.hostDir,
		Bell: a.HostBell, Attach: a.AttachHost, Detach: a.DetachHost, Barrier: a.Barrier, Locate: a.Memory.Locate,
		Refused: func(why reason.Detail) { a.Trace.Refuse(0, why) },
	})
	return err
}

// unpublish ends all paths through memory to other processes.
func (d *Device) unpublish() error {
	if d.sameHost.host == nil {
		return nil
	}
	return d.sameHost.host.Close()
}

// reach looks for a path through memory before a path to a peer is first used. It fails only
// if the mode requires memory.
func (s *Stack) reach(d *Device, cfg *Config, peer qp.Endpoint, qpn uint32) error {
	h := d.sameHost.host
	if h == nil || peer.Addr().IsMulticast() {
		return nil
	}
	if !cfg.NoLoopback && s.owns(qp.InZone(peer, d.Addr()), qpn) {
		return nil // a device of this process, which receives packets directly
	}
	limit := reachLimit
	if d.sameHost.mode == samehost.Require {
		limit = requiredLimit
	}
	err := h.Reach(peer, qpn, limit)
	switch {
	case err == nil || d.sameHost.mode != samehost.Require:
		return nil
	case d.local.Closed() != nil:
		return d.local.Closed()
	}
	return fmt.Errorf("same host required: %w", err)
}

// owns reports whether a queue pair belongs to a device of the stack.
func (s *Stack) owns(at qp.Endpoint, qpn uint32) bool {
	e := s.reg().Find(at)
	if e == nil {
		return false
	}
	_, ok := e.Adapter.Share().Lane(qpn)
	return ok
}

// SameHostState is the state of a device's memory path to other processes on this host.
type SameHostState struct {
	Mode   SameHost
	Socket string // path of the socket by which they find the device; empty if there is none
	Why    error  // why there is no socket, with a named reason (ReasonError)
}

// SameHost returns how other processes on this host reach the device.
func (d *Device) SameHost() SameHostState {
	p := &d.sameHost
	s := SameHostState{Mode: SameHost(p.mode.String()), Why: p.why}
	if p.host != nil {
		s.Socket = p.host.Dir() + "/" + p.host.Name()
	}
	return s
}

// A Path says how the packets of a connection reach its peer.
type Path string

// The paths.
const (
	PathNetwork     Path = "network"
	PathSameHost    Path = "same host"    // shared memory with another process
	PathSameProcess Path = "same process" // the peer is a device of the same stack
	PathUnknown     Path = "unknown"      // not connected
)

// Path returns how the queue pair's packets reach its peer now. It can change: a peer that
// closes and opens its device again is reached through the network meanwhile.
func (q *QP) Path() Path {
	switch q.drv.Path() {
	case object.PathNetwork:
		return PathNetwork
	case object.PathSameHost:
		return PathSameHost
	case object.PathSameProcess:
		return PathSameProcess
	}
	return PathUnknown
}

// WhyNetwork returns why the queue pair's packets take the network instead of memory, with a
// named reason (ReasonOf). It returns nil if they do not take it, or if the reason is unknown.
func (q *QP) WhyNetwork() error {
	d := q.Device()
	if q.Path() != PathNetwork {
		return nil
	}
	if d.sameHost.host == nil {
		return d.sameHost.why
	}
	a := q.drv.Query()
	return d.sameHost.host.Why(a.Path.Dst, a.DestQPN).Err()
}
