package verbs

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"softrdma/internal/host"
)

// A RoCEConfig tunes a RoCE v2 device. The fields are those of Config. The zero value suits most
// programs.
type RoCEConfig struct {
	Stack                     *Stack // nil: that of Open
	Spin                      time.Duration
	ReceiveBuffer, SendBuffer int
	Window                    int
	Congestion                CongestionControl
	Recovery                  Recovery
	Lanes                     int
	Shared                    bool
	TLS                       *tls.Config
	TLSRefused                func(peer netip.AddrPort, err error)
	PeerTimeout               time.Duration
	MTU                       int
	KeepReasons               bool
	NoLoopback                bool
	SameHost                  SameHost
	SameHostAllow             []string
	Sanitize                  string
	SanitizeReport            func(rule, text string)
}

// OpenRoCE opens a RoCE v2 device by the name of a network interface ("eth0", "lo"), by a local
// address ("127.0.0.2", "::1", "fe80::1%eth0"), or by "" for the best routable address of this
// machine. Device.Explain says why it was chosen.
//
// An address may have a UDP port ("[::1]:4792") for a second device on the same address; other
// implementations of RoCE v2 only use port 4791. One address and port is one device: opening it
// twice fails.
//
// The context bounds the opening, not the device.
func OpenRoCE(ctx context.Context, at string, cfg RoCEConfig) (*Device, error) {
	return cfg.Stack.orProcess().openAddress(ctx, RoCE, at, cfg.config())
}

func (c *RoCEConfig) config() *Config {
	return &Config{
		Sanitize: c.Sanitize, SanitizeReport: c.SanitizeReport,
		Spin: c.Spin, ReceiveBuffer: c.ReceiveBuffer, SendBuffer: c.SendBuffer, Window: c.Window, Congestion: c.Congestion,
		Recovery: c.Recovery, Lanes: c.Lanes, Shared: c.Shared, TLS: c.TLS, TLSRefused: c.TLSRefused, PeerTimeout: c.PeerTimeout, MTU: c.MTU, NoLoopback: c.NoLoopback,
		SameHost: c.SameHost, SameHostAllow: c.SameHostAllow, KeepReasons: c.KeepReasons,
	}
}

// A RoCEv1Config tunes a RoCE v1 device. The fields are those of Config.
type RoCEv1Config struct {
	Stack                     *Stack // nil: that of Open
	Spin                      time.Duration
	ReceiveBuffer, SendBuffer int
	Window                    int
	Congestion                CongestionControl
	Recovery                  Recovery
	Lanes                     int
	PeerTimeout               time.Duration
	MTU                       int
	KeepReasons               bool
	NoLoopback                bool
	SameHost                  SameHost
	SameHostAllow             []string
	Sanitize                  string
	SanitizeReport            func(rule, text string)
}

// OpenRoCEv1 opens a RoCE v1 device on a network interface ("eth0", "10.0.0.2", "fe80::1%eth0"),
// which reaches adapters in one broadcast domain with Ethernet frames. It needs Linux and the
// capability CAP_NET_RAW. Its GID is an address of the interface. If the interface has none, or if
// it is named, the GID is in fe80::/64 with the EUI-64 of the MAC address. Peers of both address
// families can be reached. UDP ports have no meaning.
//
// The context bounds the opening, not the device.
func OpenRoCEv1(ctx context.Context, at string, cfg RoCEv1Config) (*Device, error) {
	return cfg.Stack.orProcess().openAddress(ctx, RoCEv1, at, cfg.config())
}

func (c *RoCEv1Config) config() *Config {
	return &Config{
		Sanitize: c.Sanitize, SanitizeReport: c.SanitizeReport,
		Spin: c.Spin, ReceiveBuffer: c.ReceiveBuffer, SendBuffer: c.SendBuffer, Window: c.Window, Congestion: c.Congestion,
		Recovery: c.Recovery, Lanes: c.Lanes, PeerTimeout: c.PeerTimeout, MTU: c.MTU, NoLoopback: c.NoLoopback,
		SameHost: c.SameHost, SameHostAllow: c.SameHostAllow, KeepReasons: c.KeepReasons,
	}
}

// An IWARPConfig tunes an iWARP device. The fields are those of Config.
type IWARPConfig struct {
	Stack                     *Stack // nil: that of Open
	Spin                      time.Duration
	ReceiveBuffer, SendBuffer int
	TLS                       *tls.Config
	TLSRefused                func(peer netip.AddrPort, err error)
	NoCRC, Markers            bool
	TCPCongestion             string
	PeerTimeout               time.Duration
	Sanitize                  string
	SanitizeReport            func(rule, text string)
}

// OpenIWARP opens an iWARP device on a network interface or a local address, as OpenRoCE does. It
// connects to Linux's siw and other RNICs over TCP. What iWARP does not support is refused with
// errors.ErrUnsupported: queue pairs other than RC, and therefore multicast; SENDs with immediate
// data; atomics and WRITEs with immediate data if the peer does not implement RFC 7306, which
// softrdma does and siw does not; and connecting queue pairs without package rdmacm. The peer of a
// SEND must have posted a receive, because iWARP cannot wait for one.
//
// The context bounds the opening, not the device.
func OpenIWARP(ctx context.Context, at string, cfg IWARPConfig) (*Device, error) {
	return cfg.Stack.orProcess().openAddress(ctx, IWARP, at, cfg.config())
}

func (c *IWARPConfig) config() *Config {
	return &Config{
		Sanitize: c.Sanitize, SanitizeReport: c.SanitizeReport,
		Spin: c.Spin, ReceiveBuffer: c.ReceiveBuffer, SendBuffer: c.SendBuffer, TLS: c.TLS, TLSRefused: c.TLSRefused,
		NoCRC: c.NoCRC, Markers: c.Markers, TCPCongestion: c.TCPCongestion, PeerTimeout: c.PeerTimeout,
	}
}

// A PortConfig tunes a device on a port of a fabric. The fields are those of Config.
type PortConfig struct {
	Stack          *Stack // nil: that of Open
	Spin           time.Duration
	Window         int
	Congestion     CongestionControl
	Recovery       Recovery
	PeerTimeout    time.Duration
	KeepReasons    bool
	Sanitize       string
	SanitizeReport func(rule, text string)
}

// OpenPort opens a port of an InfiniBand fabric that `softrdma fabric up` runs on this host:
// "FABRIC/NODE" or "FABRIC/NODE:2". NODE is the node's name in the topology or its GUID, and without
// a port number the port is 1. "FABRIC@HOST/NODE" is one of a fabric on another host, by UDP. All
// packets go through the fabric's switches, also those to devices of this process and host, and to
// the device itself. The device opens even if no subnet manager has configured the port yet, or if
// its link is down: packets are lost until the port is active. LID, MTU, partitions and GIDs are
// what the manager sets, at any time; [Device.NextEvent] tells of changes and queue pairs follow
// them. Peers are reached by LID (AddressVector.DLID).
//
// The context bounds the wait for the fabric's process. It does not bound the device.
func OpenPort(ctx context.Context, port string, cfg PortConfig) (*Device, error) {
	return cfg.Stack.orProcess().openPort(ctx, port, cfg.config())
}

func (c *PortConfig) config() *Config {
	return &Config{
		Sanitize: c.Sanitize, SanitizeReport: c.SanitizeReport,
		Spin: c.Spin, Window: c.Window, Congestion: c.Congestion, Recovery: c.Recovery, PeerTimeout: c.PeerTimeout,
		KeepReasons: c.KeepReasons,
	}
}

// A SharedConfig tunes a device on a shared address. The fields are those of Config.
type SharedConfig struct {
	Stack                     *Stack // nil: that of Open
	Spin                      time.Duration
	ReceiveBuffer, SendBuffer int
	Window                    int
	Congestion                CongestionControl
	Recovery                  Recovery
	PeerTimeout               time.Duration
	KeepReasons               bool
	NoLoopback                bool
	SameHost                  SameHost
	SameHostAllow             []string
	Sanitize                  string
	SanitizeReport            func(rule, text string)
}

// OpenShared opens a device on the address, or on the port of a fabric, of a device that
// `softrdma daemon` serves: "" stands for the first device of the daemon that `softrdma exec` also
// finds, "/run/my/socket" for that of the daemon on a socket, and a device name at the end of
// either, like "/rxe1", for another device. The device is in this process, with some of the
// address's queue pair numbers, and as fast as one with an address of its own. The daemon must run
// as the same user in the same network namespace; 255 programs or fewer can share an address. The
// address, the MTU and the GUID are those of the daemon's device. Over RoCE v1 this process needs
// CAP_NET_RAW as well. Connections of package rdmacm are refused, as queue pair 1 is the daemon's;
// so a device of iWARP, which has no other connections, is for the engine of exec only. The device
// does not end with the daemon.
//
// The context bounds the wait for the daemon. It does not bound the device.
func OpenShared(ctx context.Context, of string, cfg SharedConfig) (*Device, error) {
	return cfg.Stack.orProcess().openSlot(ctx, of, cfg.config())
}

func (c *SharedConfig) config() *Config {
	return &Config{
		Sanitize: c.Sanitize, SanitizeReport: c.SanitizeReport,
		Spin: c.Spin, ReceiveBuffer: c.ReceiveBuffer, SendBuffer: c.SendBuffer, Window: c.Window, Congestion: c.Congestion,
		Recovery: c.Recovery, PeerTimeout: c.PeerTimeout, NoLoopback: c.NoLoopback, SameHost: c.SameHost,
		SameHostAllow: c.SameHostAllow, KeepReasons: c.KeepReasons,
	}
}

// openTime is how long Open waits for the process of a fabric or for a daemon.
const openTime = 10 * time.Second

// Open opens the device of a name, as commands take it: what OpenRoCE takes, or a prefix and what
// the function of that kind of device takes: "iwarp:" (OpenIWARP), "roce1:" (OpenRoCEv1), "ib:"
// (OpenPort) or "shared:" (OpenShared). Instead of an interface, "eth:FABRIC/HOST" is a host of an
// Ethernet fabric that `softrdma fabric up --ethernet` runs, and "eth:FABRIC/ADDRESS" the host with an
// IPv4 or IPv6 address: "eth:fab0/node-3" is a RoCE v2 device, "roce1:eth:fab0/node-3" one of RoCE v1. A
// setting of cfg that the kind of device does not have is refused. It waits at most ten seconds for other
// processes.
func Open(name string, cfg Config) (*Device, error) { return process.Open(name, cfg) }

// Open opens a device in the stack. See the function Open.
func (s *Stack) Open(name string, cfg Config) (*Device, error) {
	ctx, cancel := context.WithTimeout(context.Background(), openTime)
	defer cancel()
	if rest, ok := strings.CutPrefix(name, sharedPrefix); ok {
		return s.openSlot(ctx, rest, &cfg)
	}
	if rest, ok := strings.CutPrefix(name, fabricPrefix); ok {
		return s.openPort(ctx, rest, &cfg)
	}
	p, at := protocolOf(name)
	if rest, ok := strings.CutPrefix(at, ethernetPrefix); ok {
		return s.openEthernet(ctx, p, rest, &cfg)
	}
	return s.openAddress(ctx, p, at, &cfg)
}

// openAddress opens a device of a protocol on a local address.
func (s *Stack) openAddress(ctx context.Context, p Protocol, at string, cfg *Config) (*Device, error) {
	choice, err := choose(p, at)
	if err != nil {
		return nil, openError(p, at, choice, err)
	}
	o := opening{choice: choice, protocol: p}
	if err = ctx.Err(); err == nil {
		err = o.check(cfg)
	}
	if err == nil {
		s.reg().Vacate(choice.Addr)
		o.links, err = s.openLinks(p, &o.choice, cfg)
	}
	if err != nil {
		return nil, openError(p, at, choice, err)
	}
	d, err := s.start(&o, cfg)
	if err != nil {
		return nil, openError(p, at, choice, err)
	}
	return d, nil
}

// openError returns the error of a device that could not be opened. If the caller did not name a
// device, the error contains the chosen device.
func openError(p Protocol, at string, choice host.Choice, err error) error {
	err = openReason(err, choice.Addr.Port())
	switch {
	case at != "":
		return fmt.Errorf("open RDMA device %q: %w", p.prefix()+at, err)
	case choice.Addr.IsValid():
		return fmt.Errorf("open the best RDMA device, %v on %s: %w", choice.Addr.Addr(), choice.Interface.Name, err)
	}
	return fmt.Errorf("open the best RDMA device: %w", err)
}

// openNamed returns the error of a device with a prefix.
func openNamed(prefix, name string, err error) error {
	return fmt.Errorf("open RDMA device %q: %w", prefix+name, openReason(err, 0))
}
