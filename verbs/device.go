package verbs

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"softrdma/internal/adapter"
	"softrdma/internal/allocation"
	"softrdma/internal/congestion"
	"softrdma/internal/host"
	"softrdma/internal/link/udp"
	"softrdma/internal/object"
	"softrdma/internal/provider"
	"softrdma/internal/provider/local"
	"softrdma/internal/qp"
	"softrdma/internal/reason"
	"softrdma/internal/registry"
	"softrdma/internal/samehost"
	"softrdma/internal/trace"
)

// Port is the UDP port of RoCE v2 (annex A17.3.2.2).
const Port = 4791

// Sentinels for errors.Is.
var (
	ErrBusy      = object.ErrBusy      // other objects use the object
	ErrClosed    = object.ErrClosed    // the device is closed
	ErrDestroyed = object.ErrDestroyed // the object was destroyed
	ErrOverflow  = object.ErrOverflow  // a completion queue had no room for a completion
)

// A Device is an open RDMA device with one port, on one local address.
type Device struct {
	drv      provider.Device
	local    *adapter.Device // the adapter of drv
	stack    *Stack          // of local
	fabric   provider.Fabric // nil unless the device is a port of a fabric
	choice   host.Choice
	protocol Protocol
	guid     uint64
	attr     DeviceAttr
	state    func() host.PortState // returns the current state of the port
	gids     []GIDEntry
	zone     string
	spin     time.Duration

	release  func() error // returns the slot of a shared address; nil if there is none
	slots    *udp.Slots   // of a shared address; nil if there is none
	sameHost hostPath
	spinning atomic.Bool // a waiting call polls for packets

	watcher *host.Watcher // nil if the system has no watcher

	mu       sync.Mutex
	captures []*Capture
}

// Open opens a device by the name of a network interface ("eth0", "lo"), by a
// local address ("127.0.0.2", "::1", "fe80::1%eth0"), or by "" for the best
// routable address of this machine. Device.Explain says why it was chosen.
//
// An address may have a UDP port ("[::1]:4792") for a second device on the
// same address; other implementations of RoCE v2 use port 4791 alone. One
// address and port is one device: opening it twice fails.
//
// The prefix "iwarp:" ("iwarp:eth0", "iwarp:127.0.0.2", "iwarp:") opens an iWARP
// device instead, which connects to Linux's siw and other RNICs over TCP. What iWARP
// does not support is refused with errors.ErrUnsupported: queue pairs other than RC,
// and therefore multicast; SENDs with immediate data; atomics and WRITEs with
// immediate data if the peer does not implement RFC 7306, which softrdma does and siw
// does not; and connecting queue pairs without package rdmacm. The peer of a SEND
// must have posted a receive, because iWARP cannot wait for one.
//
// The prefix "roce1:" ("roce1:eth0", "roce1:10.0.0.2", "roce1:fe80::1%eth0") opens a
// RoCE v1 device instead, which reaches adapters in one broadcast domain with Ethernet
// frames. It needs Linux and the capability CAP_NET_RAW. Its GID is an address of the
// interface. If the interface has none, or if it is named, the GID is in fe80::/64
// with the EUI-64 of the MAC address. Peers of both address families can be reached.
// UDP ports have no meaning.
//
// The prefix "ib:" ("ib:FABRIC/NODE", "ib:FABRIC/NODE:2") opens a port of an InfiniBand fabric
// that `softrdma fabric up` runs on this host. NODE is the node's name in the topology or its
// GUID, and without a port number the port is 1. "ib:FABRIC@HOST/NODE" opens one of a fabric on
// another host, by UDP. All packets go through the fabric's switches, also those to devices of
// this process and host, and to the device itself. The device opens even if no subnet manager has
// configured the port yet, or if its link is down: packets are lost until the port is active.
// LID, MTU, partitions and GIDs are what the manager sets, at any time; [Device.NextEvent] tells
// of changes and queue pairs follow them. Peers are reached by LID (AddressVector.DLID).
//
// The prefix "shared:" opens a device on the address of a RoCE v2 device that `softrdma daemon`
// serves. "shared:" is the first device of the daemon that `softrdma exec` also finds,
// "shared:/run/my/socket" that of the daemon on a socket, and a device name at the end of either,
// like "/rxe1", selects another device. The device is in this process, with some of the address's
// queue pair numbers, and as fast as one with an address of its own. The daemon must run as the
// same user in the same network namespace; 255 programs or fewer can share an address. The
// address, the MTU and the GUID are those of the daemon's device. Connections of package rdmacm are
// refused, as queue pair 1 is the daemon's. The device does not end with the daemon.
func Open(name string, cfg Config) (*Device, error) { return process.Open(name, cfg) }

// Open opens a device in the stack. See the function Open.
func (s *Stack) Open(name string, cfg Config) (*Device, error) {
	for prefix, open := range map[string]func(string, *Config) (*Device, error){
		sharedPrefix: s.openShared, fabricPrefix: s.openFabric,
	} {
		if rest, ok := strings.CutPrefix(name, prefix); ok {
			d, err := open(rest, &cfg)
			if err != nil {
				return nil, fmt.Errorf("open RDMA device %q: %w", name, openReason(err, 0))
			}
			return d, nil
		}
	}
	choice, protocol, err := choose(name)
	if err != nil {
		return nil, openError(name, choice, err)
	}
	p := opening{choice: choice, protocol: protocol}
	if err = p.check(&cfg); err == nil {
		s.reg.Vacate(choice.Addr)
		p.links, err = s.openLinks(protocol, &p.choice, &cfg)
	}
	if err != nil {
		return nil, openError(name, choice, err)
	}
	d, err := s.start(&p, &cfg)
	if err != nil {
		return nil, openError(name, choice, err)
	}
	return d, nil
}

// An opening is a device that is being opened.
type opening struct {
	choice   host.Choice
	protocol Protocol
	mtu      int
	control  congestion.Kind
	recovery congestion.Recovery
	mode     samehost.Mode
	allow    []string
	mirror   *trace.Mirror
	hostDir  string // of the memory path; empty for the default
	links    links
	release  func() error
}

// check applies the settings of a configuration.
func (p *opening) check(cfg *Config) (err error) {
	p.control, p.recovery, err = transmission(cfg.Congestion, cfg.Recovery)
	if err == nil && p.protocol == IWARP {
		err = refuseTransmission("iWARP leaves both to TCP", cfg.Congestion, cfg.Recovery)
	}
	var modeErr error
	p.mode, p.allow, modeErr = cfg.sameHost()
	if err = errors.Join(err, modeErr); err != nil {
		return err
	}
	p.mtu = host.MTUFor(p.choice.Interface.MTU)
	if p.mtu == 0 && p.protocol != IWARP {
		return fmt.Errorf("interface %s: %w", p.choice.Interface.Name, refusal(reason.InterfaceMTU, host.LeastMTU, p.choice.Interface.MTU))
	}
	if cfg.MTU != 0 {
		if err := checkMTU(cfg.MTU, p.mtu); err != nil {
			return err
		}
		p.mtu = cfg.MTU
	}
	return nil
}

// start makes the device on its links, and closes them if it fails.
func (s *Stack) start(p *opening, cfg *Config) (*Device, error) {
	choice := p.choice
	guid := host.GUID(choice.Interface, choice.Addr.Addr())
	var b *adapter.Loopback
	if p.protocol != IWARP && !cfg.NoLoopback {
		b = &s.reg.Loopback
	}
	d := &Device{
		stack: s, choice: choice, protocol: p.protocol, spin: cfg.spin(), guid: guid, zone: choice.Addr.Addr().Zone(),
		slots: p.links.slots, release: p.release,
	}
	a := adapter.Open(adapter.Config{
		Networks: p.links.networks, Share: p.links.share, Streams: p.links.streams, Spin: d.spin, Window: cfg.Window,
		Control: p.control, Recovery: p.recovery, MTU: p.mtu, GUID: guid, PeerTimeout: cfg.PeerTimeout,
		Loopback: b, Mirror: p.mirror, NoCRC: cfg.NoCRC, Markers: cfg.Markers,
		HostBells: p.mode != samehost.Off && p.protocol != IWARP, MemoryOnly: p.mode == samehost.Require,
		Reach: func(peer qp.Endpoint, qpn uint32) error { return s.reach(d, cfg, peer, qpn) },
	})
	d.drv, d.local = local.Device{Device: a}, a
	if err := d.publish(p); err != nil {
		return nil, errors.Join(err, a.Close(), d.giveUp())
	}
	d.attr, d.state = attributes(d.Name(), GUID(guid), GUID(host.SystemGUID(choice.Interface, choice.Addr.Addr())), p.protocol), d.portState
	d.gids = gidTable(p.protocol, choice.Addr.Addr(), choice.Interface.MAC, choice.Interface.Name)
	if s.reg.Networks == nil {
		d.watch()
	}
	e := &registry.Entry{Handle: d, Provider: d.drv, Adapter: a, TLS: cfg.TLS}
	if d.slots != nil {
		e.Slots = deviceSlots{d}
	}
	s.reg.Add(e)
	return d, nil
}

// openReason returns the error with the reason DEVICE_OPEN unless it already has a reason.
func openReason(err error, port uint16) error {
	if errors.As(err, new(ReasonError)) {
		return err
	}
	d := reason.Detail{Reason: reason.DeviceOpen, Expected: uint64(port)}
	if no := syscall.Errno(0); errors.As(err, &no) {
		d.Found = uint64(no)
	}
	return &reason.Error{Detail: d, Text: err.Error(), Cause: err}
}

// openError returns the error of Open. If the caller did not name a device, the error contains
// the chosen device.
func openError(name string, choice host.Choice, err error) error {
	err = openReason(err, choice.Addr.Port())
	switch {
	case name != "" && name != iwarpPrefix && name != rocev1Prefix:
		return fmt.Errorf("open RDMA device %q: %w", name, err)
	case choice.Addr.IsValid():
		return fmt.Errorf("open the best RDMA device, %v on %s: %w", choice.Addr.Addr(), choice.Interface.Name, err)
	}
	return fmt.Errorf("open the best RDMA device: %w", err)
}

// Name returns the name of the network interface.
func (d *Device) Name() string { return d.choice.Interface.Name }

// Addr returns the local address and UDP port that peers send to. The port of an
// iWARP device is 0: each connection has a TCP port of its own. Those of a RoCE v1 device, its
// EtherType 0x8915, and of a port of a fabric, 32, mean nothing to peers. The address of such a
// port is that of the fabric's table of IP addresses, or else its GID.
func (d *Device) Addr() netip.AddrPort { return d.choice.Addr }

// Spin returns how long waiting calls poll before they sleep: Config.Spin, or its default.
func (d *Device) Spin() time.Duration { return d.spin }

// Explain describes how the device's address was chosen, one sentence per line.
func (d *Device) Explain() []string { return d.choice.Why }

// Close ends the device with all its objects. Waiting calls return ErrClosed.
// Close finishes captures and returns their errors. When it returns the device no
// longer accesses registered memory, and Memory.Free succeeds. A second Close
// waits for the first.
func (d *Device) Close() error {
	registry.Remove(d)
	d.unwatch()
	err := errors.Join(d.unpublish(), d.drv.Close(), d.giveUp())
	allocation.Forget(d)
	d.mu.Lock()
	captures := d.captures
	d.captures = nil
	d.mu.Unlock()
	for _, c := range captures {
		err = errors.Join(err, c.Close())
	}
	return err
}

// Counts are the numbers of existing objects, by kind.
type Counts struct {
	PD, CQ, QP, SRQ, MR, MW, AH, Channel int
}

// Counts returns how many objects of each kind exist, for tests of leaks.
func (d *Device) Counts() Counts { return Counts(d.drv.Count()) }

// Counters returns each named reason that the device has given and how often.
func (d *Device) Counters() iter.Seq2[string, uint64] {
	return func(yield func(string, uint64) bool) {
		for r, n := range d.drv.Counters() {
			if !yield(r.String(), n) {
				return
			}
		}
	}
}

// Traffic returns how many bytes of payload were in packets that the device has sent, repeated
// ones included, and has received, without repeated SENDs and WRITEs. iWARP devices return 0.
func (d *Device) Traffic() (sent, received uint64) { return d.drv.Traffic() }

// An Event is an asynchronous event (IBTA 11.6.3). At most one of QP, CQ and SRQ is
// set: the object that it concerns. An event of the device or port has none.
type Event struct {
	Type EventType
	QP   *QP
	CQ   *CQ
	SRQ  *SRQ

	why reason.Detail
}

// String returns the event, the object that it concerns, and the reason.
func (e Event) String() string {
	s := e.Type.String()
	switch {
	case e.QP != nil:
		s += fmt.Sprintf(" on QP %#06x", e.QP.Number())
	case e.CQ != nil:
		s += " on a CQ"
	case e.SRQ != nil:
		s += " on an SRQ"
	}
	if e.why.Reason != reason.None {
		s += ": " + e.why.String()
	}
	return s
}

// NextEvent waits for the next asynchronous event of the device, its port or its
// objects (ibv_get_async_event). The error is ErrClosed or the context's.
func (d *Device) NextEvent(ctx context.Context) (Event, error) {
	a, err := d.drv.NextEvent(ctx)
	if err != nil {
		return Event{}, err
	}
	e := Event{Type: EventType(a.Type), why: a.Detail}
	switch x := a.Owner.(type) {
	case *QP:
		e.QP = x
	case *CQ:
		e.CQ = x
	case *SRQ:
		e.SRQ = x
	}
	return e, nil
}
