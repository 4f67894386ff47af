package host

import (
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// Port is the UDP port of RoCE v2 (annex A17.3.2.2).
const Port = 4791

// ErrNoDevice is wrapped when a name is not an interface or address of this machine.
var ErrNoDevice = errors.New("no such network interface or local address")

// errPort is wrapped when the port of an address is invalid.
var errPort = errors.New("UDP port")

// A Choice is the address that a device is opened on, and why.
type Choice struct {
	Addr      netip.AddrPort
	Interface Interface
	Why       []string // one sentence per line
}

// Resolve returns the address for a name. The name is a network interface ("eth0"),
// whose best address is chosen, or a local address with or without a UDP port
// ("127.0.0.2", "[::1]:4792", "fe80::1%eth0").
func Resolve(name string) (Choice, error) {
	list, err := Interfaces()
	if err != nil {
		return Choice{}, err
	}
	return resolve(name, list)
}

// DefaultDevice returns the best routable address of this machine.
func DefaultDevice() (Choice, error) {
	list, err := Interfaces()
	if err != nil {
		return Choice{}, err
	}
	return choose(list, defaultRoutes())
}

func resolve(name string, list []Interface) (Choice, error) {
	for _, i := range list {
		if i.Name == name {
			return ofInterface(i, []string{fmt.Sprintf("%q is a network interface.", name)})
		}
	}
	at, err := parse(name)
	if errors.Is(err, errPort) {
		return Choice{}, fmt.Errorf("%w: found %q: %w", ErrNoDevice, name, err)
	}
	if err != nil {
		return Choice{}, fmt.Errorf("%w: found %q, expected one of %s", ErrNoDevice, name, all(list))
	}
	for _, i := range list {
		for _, a := range i.Addrs {
			if a == NamedZone(at.Addr()) || a.WithZone("") == at.Addr() && at.Addr().IsLinkLocalUnicast() {
				return Choice{netip.AddrPortFrom(a, at.Port()), i, []string{fmt.Sprintf("%v is an address of %s.", a, i.Name)}}, nil
			}
		}
	}
	for _, i := range list {
		if local(i, at.Addr()) {
			return Choice{at, i, []string{fmt.Sprintf("%v is a loopback address, local to %s.", at.Addr(), i.Name)}}, nil
		}
	}
	return Choice{}, fmt.Errorf("%w: found %v, expected one of %s", ErrNoDevice, at.Addr(), all(list))
}

// parse parses an address with or without a port.
func parse(s string) (netip.AddrPort, error) {
	bare := s
	if strings.HasPrefix(s, "[") && strings.HasSuffix(s, "]") { // an address in brackets without a port
		bare = s[1 : len(s)-1]
	}
	if a, err := netip.ParseAddr(bare); err == nil {
		return netip.AddrPortFrom(a.Unmap(), Port), nil
	}
	h, p, err := net.SplitHostPort(s)
	if err != nil {
		return netip.AddrPort{}, err
	}
	a, err := netip.ParseAddr(h)
	if err != nil {
		return netip.AddrPort{}, err
	}
	n, err := strconv.ParseUint(p, 10, 16)
	if err != nil || n == 0 {
		return netip.AddrPort{}, fmt.Errorf("%w: expected 1 to 65535, found %q", errPort, p)
	}
	return netip.AddrPortFrom(a.Unmap(), uint16(n)), nil
}

func all(list []Interface) string {
	var s []string
	for _, i := range list {
		if len(i.Addrs) == 0 {
			continue // cannot be a device
		}
		var addrs []string
		for _, a := range i.Addrs {
			addrs = append(addrs, a.String())
		}
		s = append(s, fmt.Sprintf("%s (%s)", i.Name, strings.Join(addrs, ", ")))
	}
	if s == nil {
		return "none: no interface has an IP address"
	}
	return strings.Join(s, ", ")
}

// rank orders addresses by how widely they are routable; less is better.
func rank(a netip.Addr) (int, string) {
	switch {
	case a.IsLoopback():
		return 6, "loopback"
	case a.Is4() && a.IsLinkLocalUnicast():
		return 4, "link-local IPv4"
	case a.IsLinkLocalUnicast():
		return 5, "link-local IPv6"
	case a.Is4():
		return 1, "routable IPv4"
	case a.IsPrivate():
		return 3, "unique local IPv6"
	}
	return 2, "global IPv6"
}

// ofInterface returns the best address of an interface.
func ofInterface(i Interface, why []string) (Choice, error) {
	var best netip.Addr
	for _, a := range i.Addrs {
		if r, _ := rank(a); !best.IsValid() {
			best = a
		} else if b, _ := rank(best); r < b {
			best = a
		}
	}
	if !best.IsValid() {
		return Choice{}, fmt.Errorf("interface %s has no IP address; RoCE v2 needs one", i.Name)
	}
	_, kind := rank(best)
	why = append(why, fmt.Sprintf("%v is the first of its most widely routable addresses (%s).", best, kind))
	return Choice{netip.AddrPortFrom(best, Port), i, why}, nil
}

// reach returns the rank of the best address of an interface.
func reach(i Interface) int {
	best := math.MaxInt
	for _, a := range i.Addrs {
		r, _ := rank(a)
		best = min(best, r)
	}
	return best
}

// choose returns an address of the preferred default route's interface, else of the
// first interface that is up, of those with the most widely routable addresses, else of
// the loopback interface. A link-local IPv6 address cannot be used at first, while the
// kernel looks for duplicates. The interface's MTU must be large enough for RoCE v2.
func choose(list []Interface, routes []int) (Choice, error) {
	usable := func(i Interface) bool { return i.Up && len(i.Addrs) > 0 && MTUFor(i.MTU) > 0 }
	for _, r := range routes {
		for _, i := range list {
			if i.Index == r && usable(i) {
				return ofInterface(i, []string{fmt.Sprintf("%s has the default route.", i.Name)})
			}
		}
	}
	best := -1
	for n, i := range list {
		if usable(i) && !i.Loopback && (best < 0 || reach(i) < reach(list[best])) {
			best = n
		}
	}
	if best >= 0 {
		i := list[best]
		return ofInterface(i, []string{fmt.Sprintf("No default route; %s is the first interface that is up and has such an address.", i.Name)})
	}
	for _, i := range list {
		if usable(i) {
			return ofInterface(i, []string{fmt.Sprintf("No network interface is up except the loopback interface, %s.", i.Name)})
		}
	}
	return Choice{}, fmt.Errorf("no network interface is up and has an address: expected one, found %s", all(list))
}
