package verbs

import (
	"crypto/tls"
	"net/netip"
	"time"

	"softrdma/faults"
	"softrdma/internal/reason"
)

// DefaultSpin is how long a device polls for packets before it sleeps.
const DefaultSpin = 20 * time.Microsecond

// A Config tunes a device. The zero value suits most programs.
type Config struct {
	// Spin is how long the device's goroutine and waiting calls poll for packets before they
	// sleep in the kernel. 0 means DefaultSpin, negative means no polling.
	Spin time.Duration

	// ReceiveBuffer and SendBuffer are the requested sizes of the socket's buffers
	// in bytes; 0 means 4 MiB. The system may grant less. On Linux a receive buffer of
	// RoCE v2 with size 0 grows while packets are dropped, up to 64 MiB for a device, and
	// shrinks when nothing arrives. With iWARP they are for each connection, and 0 lets the
	// system adapt them.
	ReceiveBuffer, SendBuffer int

	// Window limits the bytes in flight of one queue pair on a network. 0 means half of the
	// granted receive buffer, at least 64 KiB and at most 1 MiB.
	Window int

	// Congestion and Recovery are the defaults of connections (QPConfig). With
	// iWARP TCP does both, and they must be empty.
	Congestion CongestionControl
	Recovery   Recovery

	// Lanes is how many queue pairs can make progress at the same time; 0 means
	// one, which is right for a few processors. Each lane has sockets, a lock,
	// a goroutine and an equal share of the queue pairs, which
	// never block each other. Polling a completion queue polls each lane that
	// its queue pairs are on, so a queue per thread is best. RoCE v2 on Linux
	// has at most 64 lanes, iWARP and other systems one: more are refused with
	// errors.ErrUnsupported.
	Lanes int

	// Shared lets other programs of this user open devices on the same address, with
	// "shared:" names, once a uverbs server serves this device. It needs Linux. The
	// connections of iWARP with TLS stay in this program. So does a RoCE v2 device with TLS: the
	// server's programs use it where it is. Programs at a port of a fabric
	// on another host get this program's secret of it.
	// The device has 1/256 of the queue pair numbers for each of its lanes.
	Shared bool

	// TLS, of a RoCE v2 or iWARP device, encrypts everything that it sends, and refuses
	// what comes in the clear. On RoCE v2 two devices agree on keys by TLS, and packets
	// are protected by PSP; the device has one lane, no multicast, and no path through
	// memory (docs/security.md). rxe, siw and RDMA adapters do
	// not have it: it is for softrdma at both ends of a path that is not trusted.
	// SharedSecret returns a configuration by which two ends that know one secret
	// trust each other. Otherwise set Certificates, and RootCAs at the end that
	// dials, ClientCAs and ClientAuth at the end that listens. A listener whose
	// ClientAuth is 0 accepts any client; on RoCE v2, where each end calls the other, it
	// has to require certificates. If ServerName is empty, the certificate
	// must be for the address that is dialled. MinVersion 0 means TLS 1.3. Leave
	// NextProtos empty: softrdma sets it.
	TLS *tls.Config

	// TLSRefused, if set, is called for each peer that a listener of the device
	// refused in its TLS handshake, with the error: the peer has no secret or
	// another one, a certificate that is not trusted, or does not speak TLS. It may
	// be called from several goroutines, and any host on the network can cause any
	// number of calls.
	TLSRefused func(peer netip.AddrPort, err error)

	// NoCRC, of an iWARP device, leaves out the CRC-32C of each FPDU if the peer
	// does not ask for it either (RFC 5044 4.4). TCP's checksum, and TLS if it is
	// used, remain.
	NoCRC bool

	// Markers, of an iWARP device, asks peers for markers in their streams (RFC 5044
	// 4.3), which some adapters require. They cost a copy. softrdma always inserts
	// markers for peers that ask. siw does not support them and rejects the
	// connection.
	Markers bool

	// TCPCongestion, of an iWARP device, is the congestion control that the system's
	// TCP uses for the device's connections, for example "bbr" on long paths with
	// losses. It must be one of those in
	// /proc/sys/net/ipv4/tcp_allowed_congestion_control, unless the program has
	// CAP_NET_ADMIN. Empty means the system's default, or reno between processes of
	// one host. Other systems than Linux refuse it with errors.ErrUnsupported.
	TCPCongestion string

	// Faults are rules of what goes wrong on purpose: lost, late and wrong packets, and more. Nil means
	// none. Device.Faults changes them later.
	Faults *faults.Rules

	// PeerTimeout is how long a connection's peer may be silent before the
	// connection fails, with or without work in flight.
	//
	// With RoCE it is the default of reliable connections (QPConfig has their own);
	// 0 and negative values mean no timeout, as with adapters, and an idle device
	// never wakes up. A peer that is silent for a quarter of it is probed with a
	// duplicate packet, which any adapter acknowledges by itself. So it detects the
	// loss of the peer's device. A softrdma device ends, and stops, with its
	// process.
	//
	// With iWARP it detects the loss of the peer's host, whose TCP answers: 0 means
	// 30 s, and a negative value means the system's default. TCP also answers for a
	// process that is stopped. So a positive value is the default of queue pairs too,
	// as with RoCE: a silent peer's device is probed with a READ of zero bytes, whose
	// answer comes after everything that was sent before. There are no probes on
	// connections that allow no READs (max_rd_atomic is 0, or the peer serves none),
	// nor on those of MPA revision 1.
	PeerTimeout time.Duration

	// MTU limits the port's active MTU: 256, 512, 1024, 2048 or 4096 bytes; 0
	// means the largest that the interface carries. That of a port of a fabric is the
	// subnet manager's to choose.
	MTU int

	// KeepReasons keeps from peers why their requests are refused, and why connections end. Otherwise a softrdma peer of a
	// reliable connection that gets a NAK is told the reason that the local completion or event
	// has, and its completion says both (CompletionError.Peer); docs/security.md says what that
	// tells. iWARP devices and XRC queue pairs never tell. Programs that share the device's address
	// keep them, too.
	KeepReasons bool

	// NoLoopback sends packets between devices of one stack through the system,
	// where captures of the network interface see them. Otherwise the devices hand
	// them over in memory. Device.Capture sees both.
	NoLoopback bool

	// SameHost says whether packets to other processes on this host go through
	// shared memory instead of the network; empty means what SetSameHost has set,
	// usually SameHostAuto. Statuses, events, counters and Device.Capture
	// are the same. It needs Linux, and a directory that both processes see:
	// $SOFTRDMA_HOST_DIR, or /run/softrdma/host for root and
	// $XDG_RUNTIME_DIR/softrdma/host for other users. iWARP devices and ports of
	// a fabric do not use memory, and refuse SameHostRequire.
	SameHost SameHost

	// SameHostAllow names the users besides this process's own whose processes may
	// be such peers: names, numbers, or "all". Memory of this process is not shared
	// with them. Empty means what SetSameHost has set: none at first. Open fails if
	// the host has no user of a name.
	SameHostAllow []string

	// Sanitize is a list of rules by which the device checks how the program uses it, such as
	// "default", "default,RIGHTS_UNUSED" or "all,-OBJECT_LEAKED"; empty for none. It finds mistakes
	// such as memory that is used after it was deregistered. docs/sanitizer.md lists the rules, and
	// `softrdma explain NAME` describes each.
	Sanitize string

	// SanitizeReport gets each finding, once for each place: the rule's name, and a text of several
	// lines with the program's positions. It must not call the device, and may be called from
	// several goroutines. Nil prints the text to standard error.
	SanitizeReport func(rule, text string)
}

// injector returns what applies the rules of faults to a device.
func (c *Config) injector(device string, p Protocol) (*faults.Injector, error) {
	x, _ := faults.New(faults.Rules{}, device) // no rules are not wrong
	x.Streams = p == IWARP
	if c.Faults == nil {
		return x, nil
	}
	if err := x.Set(*c.Faults); err != nil {
		return nil, &reason.Error{Detail: reason.Detail{Reason: reason.Argument}, Text: "rules of faults: " + err.Error(), Cause: err}
	}
	return x, nil
}

// spin returns how long to poll for packets before sleeping.
func (c *Config) spin() time.Duration {
	if c.Spin == 0 {
		return DefaultSpin
	}
	return max(c.Spin, 0)
}

func checkMTU(want, max int) error {
	switch want {
	case 256, 512, 1024, 2048, 4096:
	default:
		return reason.BadArgument(4096, uint64(want), "MTU: expected 256, 512, 1024, 2048 or 4096, found %d", want)
	}
	if want > max {
		return reason.BadArgument(uint64(max), uint64(want), "MTU: expected at most %d, which the interface carries, found %d", max, want)
	}
	return nil
}
