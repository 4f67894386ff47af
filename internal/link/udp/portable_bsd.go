//go:build netbsd || openbsd || dragonfly

package udp

import "golang.org/x/sys/unix"

// These systems have no option for DF on IPv4.
var (
	options4 = options{level: unix.IPPROTO_IP, tos: unix.IP_TOS, hops: unix.IP_TTL}
	options6 = options{level: unix.IPPROTO_IPV6, tos: unix.IPV6_TCLASS, hops: unix.IPV6_UNICAST_HOPS, fragment: unix.IPV6_DONTFRAG, never: 1}
)
