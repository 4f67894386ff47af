package attach

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"softrdma/internal/fabric/relay"
	"softrdma/internal/reason"
	"softrdma/internal/unixmsg"
)

// RemotePort is the UDP port of fabrics for programs on other hosts, if no other one is named.
const RemotePort = 7701

// SecretVariable names the file with the secret of fabrics on other hosts.
const SecretVariable = "SOFTRDMA_FABRIC_SECRET"

// dialHost connects to a fabric on another host: to a relay in this process, which is the
// fabric's end of the connection. The secret is that of at, or of the environment if that is nil.
func dialHost(ctx context.Context, name, host string, n Network, at *Place) (*Conn, error) {
	to, err := resolve(ctx, host)
	if err != nil {
		return nil, err
	}
	call := relay.Call{Fabric: name, Program: filepath.Base(os.Args[0]), Headers: n.Headers()}
	if at != nil {
		call.Secret = at.Secret
	} else if file := os.Getenv(SecretVariable); file != "" {
		if call.Secret, err = relay.ReadSecret(file); err != nil {
			return nil, fmt.Errorf("%s: %w", SecretVariable, err)
		}
	}
	c, far, err := Pair()
	if err != nil {
		return nil, err
	}
	c.place.Secret = call.Secret
	if c.relay, err = relay.Dial(ctx, to, &call, far); err != nil {
		return nil, errors.Join(remoteError(err, name, to), c.Close())
	}
	return c, nil
}

// remoteError says what an error means to the caller.
func remoteError(err error, name string, to netip.AddrPort) error {
	var named *reason.Error
	if !errors.As(err, &named) {
		return fmt.Errorf("fabric %s at %v: %w", name, to, err)
	}
	text := ""
	switch d := named.Detail; d.Reason {
	case reason.FabricRemoteSilent:
		text = "no answer: expected a fabric there with softrdma fabric up --attach"
	case reason.FabricRemoteSecret:
		text = "it has another secret: expected the file of its --attach-secret in " + SecretVariable
	case reason.FabricRemoteVersion:
		text = "it has another version of softrdma"
	case reason.FabricAbsent:
		text = "another fabric runs there: expected that name"
	default:
		text = d.String()
	}
	return &reason.Error{Detail: named.Detail, Text: fmt.Sprintf("fabric %s at %v: %s", name, to, text), Cause: err}
}

// resolve finds the address of HOST or HOST:UDPPORT. A name with addresses of both kinds means the
// IPv4 address.
func resolve(ctx context.Context, text string) (to netip.AddrPort, err error) {
	host, number := text, uint64(RemotePort)
	if h, p, err := net.SplitHostPort(text); err == nil {
		if number, err = strconv.ParseUint(p, 10, 16); err != nil || number == 0 {
			return to, badAddress("@" + text)
		}
		host = h
	} else if n := len(text); n > 2 && text[0] == '[' && text[n-1] == ']' {
		host = text[1 : n-1]
	}
	list, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return to, err
	}
	for _, a := range list {
		if a.Unmap().Is4() {
			return netip.AddrPortFrom(a.Unmap(), uint16(number)), nil
		}
	}
	return netip.AddrPortFrom(list[0], uint16(number)), nil
}

// Pair returns the two ends of a connection within this process.
func Pair() (a, b *Conn, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	var ends [2]*Conn
	for i, fd := range fds {
		c, e := unixmsg.ConnOf(fd)
		if err = errors.Join(err, e); e == nil {
			ends[i] = NewConn(c)
		}
	}
	if err != nil {
		for _, c := range ends {
			if c != nil {
				_ = c.Close()
			}
		}
		return nil, nil, err
	}
	return ends[0], ends[1], nil
}
