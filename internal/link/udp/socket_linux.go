//go:build linux && !softrdma_portable

package udp

import (
	"net/netip"
	"os"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"softrdma/internal/inherit"
	"softrdma/internal/link"
	"softrdma/internal/wake"
)

// A Link is a link.Datagrams over UDP sockets.
type Link struct {
	host
	life    wake.Lifetime
	rx      endpoint
	sleeper wake.Sleeper
	watched int // see Watch; -1 if not set
	flows   flowTable
	quiet   atomic.Int64 // nanoseconds without a packet, after which Receive is to trim
	in      receiver
	left    atomic.Bool // packets were received that Receive has not delivered
	out     sender
	group   groupSet

	reports reports

	receiveBuffer int
	buffer        receiveBuffer
	keeper        int // of Slots; -1 if there is none
}

var (
	_ link.Datagrams = (*Link)(nil)
	_ link.Watcher   = (*Link)(nil)
)

// Open opens the link of one local address. Port 0 chooses a free one. The address must be a
// unicast address of this host, and no other link may be open on it.
func Open(local netip.AddrPort, cfg Config) (*Link, error) { return open(local, cfg, false) }

// open implements Open. With shared, other links may use the address and port as well.
func open(local netip.AddrPort, cfg Config, shared bool) (*Link, error) {
	local, err := checkLocal(local)
	if err != nil {
		return nil, err
	}
	l := newLink(local, cfg)
	return l.start(func() (err error) {
		l.rx, err = l.bindReceiving(shared)
		return err
	})
}

func newLink(local netip.AddrPort, cfg Config) *Link {
	l := &Link{host: host{cfg: cfg.withDefaults(), local: local}, watched: -1, keeper: -1}
	l.buffer.fixed = cfg.ReceiveBuffer > 0
	l.rx, l.group.epoll = noEndpoint, -1
	return l
}

// start returns the link when it is ready. Receive makes the receiving socket.
func (l *Link) start(receive func() error) (*Link, error) {
	l.life.Init(l.free)
	err := l.sleeper.Init()
	if err == nil {
		err = l.openAll(receive)
	}
	if err != nil {
		l.free()
		return nil, err
	}
	return l, nil
}

func (l *Link) openAll(receive func() error) (err error) {
	if err := l.findInterface(); err != nil {
		return err
	}
	if err := receive(); err != nil {
		return err
	}
	l.prepareReceive(l.rx.fd)
	l.prepareMulticast(l.rx.fd)
	granted, err := unix.GetsockoptInt(l.rx.fd, unix.SOL_SOCKET, unix.SO_RCVBUF)
	if err != nil {
		return os.NewSyscallError("getsockopt SO_RCVBUF", err)
	}
	// Measured: single packets of 1 to 4 KB, with the kernel's bookkeeping, fill up to .45 of
	// the granted size; coalesced ones .83.
	l.receiveBuffer = granted * 45 / 100
	l.buffer.init(l.rx.fd, l.cfg.ReceiveBuffer)
	if err := l.group.init(&l.host); err != nil {
		return err
	}
	l.in.init(l.local)
	l.reports.local = l.local
	l.out.init(&l.host, &l.life, &l.reports, l.rx.fd)
	l.flows = newFlowTable(l.cfg.MaxFlowSockets, keptFlows)
	return nil
}

// free closes everything. It runs when no call is in progress.
func (l *Link) free() {
	l.flows.each((*endpoint).close)
	l.out.splicer.close()
	l.out.splicer.kernel.close()
	l.group.free()
	l.sleeper.Free()
	for _, fd := range []int{l.rx.fd, l.keeper} {
		if fd >= 0 {
			inherit.Remove(fd)
			_ = unix.Close(fd)
		}
	}
}

// Close makes every call on the link, current and later ones, end with link.ErrClosed.
func (l *Link) Close() error {
	l.life.Close(l.sleeper.Interrupt)
	return nil
}

// Local returns the address and port that peers send to.
func (l *Link) Local() netip.AddrPort { return l.local }

// Capabilities implements link.Packets. The receive buffer is the total size of single packets
// of 1 to 4 KB that fit in.
func (l *Link) Capabilities() link.Capabilities {
	return link.Capabilities{
		Packets: link.MaxPackets, Bytes: link.MaxBatch,
		ReceiveBuffer: l.receiveBuffer, Segmentation: l.out.segments > 1,
		Watcher: l, Reporter: l, Sharer: l, Fragmenter: l, Returner: l,
	}
}
