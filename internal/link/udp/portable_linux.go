//go:build softrdma_portable

package udp

import "golang.org/x/sys/unix"

// The build tag softrdma_portable selects the portable link on Linux too, so that it is tested
// on the system on which the project is mostly developed.
var (
	options4 = options{level: unix.IPPROTO_IP, tos: unix.IP_TOS, hops: unix.IP_TTL, fragment: unix.IP_MTU_DISCOVER, never: unix.IP_PMTUDISC_DO}
	options6 = options{level: unix.IPPROTO_IPV6, tos: unix.IPV6_TCLASS, hops: unix.IPV6_UNICAST_HOPS, fragment: unix.IPV6_MTU_DISCOVER, never: unix.IPV6_PMTUDISC_DO}
)
