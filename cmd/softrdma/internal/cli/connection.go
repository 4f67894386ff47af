package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"softrdma/rdmacm"
	"softrdma/verbs"
)

// Reject reasons that get an error text of their own (IBTA 12.6.7.2).
const (
	rejectNoListener = 8  // invalid service ID
	rejectByProgram  = 28 // consumer reject
)

// ConnectError explains why a connection attempt failed, and what the user can do about
// it. start is the command that should be running at the other end.
func ConnectError(ctx context.Context, err error, at, start string, p Protocol, within time.Duration) error {
	start = p.Command(start)
	var rejected *rdmacm.RejectedError
	var resolve *rdmacm.ResolveError
	var unreachable *rdmacm.UnreachableError
	var name *net.DNSError
	var hint string
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &rejected) && rejected.Code == rejectNoListener:
		return PeerErrorf("nothing listens at %s: start \"%s\" there first (%w)", at, start, rejected)
	case errors.As(err, &rejected) && rejected.Code == rejectByProgram && PrivateDataText(rejected.PrivateData) != "":
		return PeerErrorf("%s refused the connection: %s", at, PrivateDataText(rejected.PrivateData))
	case rejected != nil:
		return PeerErrorf("connect to %s: %w", at, rejected)
	case errors.As(err, &resolve) && unmet(err):
		return fmt.Errorf("connect to %s: %w", at, resolve.Err)
	case errors.As(err, &resolve):
		return PeerErrorf("%w", resolve)
	case errors.As(err, &unreachable) && unmet(err):
		return fmt.Errorf("connect to %s: the peer has refused this end: %w", at, unreachable.Err)
	case errors.As(err, &name):
		return PeerErrorf("connect to %s: %w", at, name)
	case errors.Is(err, syscall.ECONNREFUSED) && errors.As(err, &unreachable):
		if !p.IWARP() {
			hint = "; if the peer uses iWARP, add --protocol " + ProtocolIWARP
		}
		return PeerErrorf("nothing listens at %s: no RDMA device is open there, or a firewall rejects %s; start \"%s\" there first%s (%w)", at, p.firewallPort(at), start, hint, unreachable)
	case errors.Is(err, syscall.EACCES) && errors.As(err, &unreachable):
		return PeerErrorf("a firewall rejects packets to %s: it has to let %s through, in both directions (%w)", at, p.firewallPort(at), unreachable)
	case errors.As(err, new(syscall.Errno)) && errors.As(err, &unreachable):
		return PeerErrorf("%s cannot be reached: is its host up, and is there a route to it? (%w)", at, unreachable)
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, new(*rdmacm.UnreachableError)):
		if !p.IWARP() {
			hint = "; if the peer uses iWARP, add --protocol " + ProtocolIWARP
		}
		return PeerErrorf("no answer from %s within %v: expected \"%s\" or another server there, and firewalls that allow %s in both directions%s", at, within, start, p.firewallPort(at), hint)
	}
	return fmt.Errorf("connect to %s: %w", at, err)
}

// unmet reports whether an error is that of two devices of RoCE v2 that did not agree on keys.
func unmet(err error) bool {
	var why verbs.ReasonError
	return errors.As(err, &why) && (strings.HasPrefix(why.Reason(), "TLS_") || strings.HasPrefix(why.Reason(), "PSP_"))
}

// PrivateDataText returns private data as text, without trailing zeros. If the data is
// not printable text it returns "".
func PrivateDataText(b []byte) string {
	s := strings.TrimRight(string(b), "\x00")
	if !utf8.ValidString(s) || strings.ContainsFunc(s, func(r rune) bool { return r < ' ' }) {
		return ""
	}
	return s
}

// OpenLocal opens the device that a flag names: a network interface, a local address or
// a host name of this machine, with the prefix "iwarp:" for iWARP. If the name is empty
// or an unspecified address it opens none, and the connection manager chooses a device.
// Only if flags of TLS or iWARP are given it chooses one itself: a client the device that reaches
// peer ("host:port"), a server, whose peer is "", the best one.
func OpenLocal(ctx context.Context, cmd *cobra.Command, name, peer string, p Protocol) (Device, error) {
	none := Device{Close: func() error { return nil }}
	if err := ApplySameHostFlags(cmd); err != nil {
		return none, err
	}
	secure, err := tlsConfig(cmd, hostOf(peer))
	if err != nil {
		return none, err
	}
	if err := checkIWARPFlags(cmd, p); err != nil {
		return none, err
	}
	if a, err := netip.ParseAddr(name); name == "" || err == nil && a.IsUnspecified() {
		if IWARPFlags(cmd) == nil {
			return none, nil
		}
		if name, err = chooseDevice(ctx, peer, p); err != nil {
			return none, err
		}
	}
	cfg := verbs.Config{TLS: secure}
	dev, err := OpenDevice(cmd, name, cfg)
	if err != nil {
		prefix, host := SplitProtocol(name)
		if found, _ := net.DefaultResolver.LookupNetIP(ctx, "ip", host); len(found) > 0 && found[0].Unmap().String() != host {
			dev, err = OpenDevice(cmd, prefix+found[0].Unmap().String(), cfg)
		}
	}
	if err != nil {
		return none, err
	}
	return dev, nil
}

// RequireDevice refuses --pcap and --faults for a server that listens on every address,
// because it opens its devices only when clients connect.
func RequireDevice(cmd *cobra.Command, dev Device, flag string) error {
	for _, name := range []string{PcapFlag, faultsFlag} {
		if dev.Device == nil && FlagGiven(cmd, name) {
			return UsageErrorf("--%s: name the device with %s; without it a server listens on every address", name, flag)
		}
	}
	return nil
}

// ListenError explains that a server cannot listen because other programs use every
// address of this machine. flag is the flag that names an address.
func ListenError(err error, dev Device, p Protocol, flag string) error {
	if err == nil || dev.Device != nil || p.IWARP() || !AddressTaken(err) {
		return err
	}
	return fmt.Errorf("UDP port %d is in use on every address of this machine, by other softrdma processes or Linux's Soft RoCE (rdma_rxe): choose a free address with %s, for example one in 127.0.0.0/8", verbs.Port, flag)
}

// DisconnectError returns why a connection ended, if err is a flushed completion, which
// only says that the queue pair failed, and the connection ends within a second.
// Otherwise it returns nil.
func DisconnectError(conn interface {
	Done() <-chan struct{}
	Err() error
}, err error) error {
	var c *verbs.CompletionError
	if !errors.As(err, &c) || c.Status != verbs.WRFlushErr {
		return nil
	}
	select {
	case <-conn.Done():
		return conn.Err()
	case <-time.After(time.Second):
		return nil
	}
}

// WaitingAt returns the message of a server that has begun to listen.
func WaitingAt(at netip.AddrPort) string {
	if at.Addr().IsUnspecified() {
		return fmt.Sprintf("waiting for a client on port %d of every address", at.Port())
	}
	return fmt.Sprintf("waiting for a client on %v port %d", at.Addr(), at.Port())
}

// IgnoreClosed returns nil if err only says that the object was closed before, and err
// otherwise.
func IgnoreClosed(err error) error {
	for _, gone := range []error{rdmacm.ErrDisconnected, rdmacm.ErrClosed, verbs.ErrClosed, verbs.ErrDestroyed} {
		if errors.Is(err, gone) {
			return nil
		}
	}
	return err
}
