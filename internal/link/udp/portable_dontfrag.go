//go:build darwin || freebsd || solaris || aix

package udp

import "golang.org/x/sys/unix"

var (
	options4 = options{level: unix.IPPROTO_IP, tos: unix.IP_TOS, hops: unix.IP_TTL, fragment: unix.IP_DONTFRAG, never: 1}
	options6 = options{level: unix.IPPROTO_IPV6, tos: unix.IPV6_TCLASS, hops: unix.IPV6_UNICAST_HOPS, fragment: unix.IPV6_DONTFRAG, never: 1}
)
