package demo

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"slices"
	"syscall"

	"softrdma/cmd/softrdma/internal/cli"
	"softrdma/verbs"
)

var loopback = netip.AddrFrom4([4]byte{127, 0, 0, 1})

// nextPort returns the device on the same address with the next UDP port.
func nextPort(name string) (string, error) {
	if p, err := netip.ParseAddrPort(name); err == nil {
		return netip.AddrPortFrom(p.Addr(), p.Port()+1).String(), nil
	}
	a, err := netip.ParseAddr(name)
	if err != nil {
		return "", fmt.Errorf("expected an address such as 127.0.0.1 or ::1, found %q", name)
	}
	return netip.AddrPortFrom(a, verbs.Port+1).String(), nil
}

// sameFamily returns the devices that a device on addr can reach. Names that are not
// addresses are kept.
func sameFamily(names []string, addr netip.Addr) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		_, rest := cli.SplitProtocol(name)
		a, err := netip.ParseAddr(rest)
		if p, portErr := netip.ParseAddrPort(name); portErr == nil {
			a, err = p.Addr(), nil
		}
		return err == nil && a.Is4() != addr.Is4()
	})
}

// withHint adds to an error what the user can do about it.
func withHint(err error, opt *options) error {
	switch {
	case opt.addr == "" && cli.AddressTaken(err):
		return fmt.Errorf("%w; name two free addresses of this machine: --addr A,B", err)
	case errors.Is(err, syscall.ENOMEM):
		return fmt.Errorf("%w; both processes hold the file in memory: try a smaller one, --size 32M", err)
	}
	return err
}

// checkLoopback returns an error if the loopback interface is down, as it is in a new
// network namespace. Packets would be lost or refused.
func checkLoopback() error {
	if loopbackIsUp() {
		return nil
	}
	if runtime.GOOS == "linux" {
		return errors.New("the loopback interface is down, and the demo runs over it: ip link set lo up")
	}
	return errors.New("the loopback interface is down, and the demo runs over it")
}

// loopbackIsUp reports whether the loopback interface carries packets. If that is
// unknown it reports true.
func loopbackIsUp() bool {
	list, err := net.Interfaces()
	if err != nil {
		return true
	}
	seen := false
	for _, i := range list {
		if i.Flags&net.FlagLoopback != 0 {
			seen = true
			if i.Flags&net.FlagUp != 0 {
				return true
			}
		}
	}
	return !seen
}
