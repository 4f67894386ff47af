//go:build linux && !softrdma_portable

package udp

import (
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// A firewall's refusal has the same errno in both versions of IP.
func TestErrnoOfNamesFirewalls(t *testing.T) {
	for _, c := range []struct {
		e    unix.SockExtendedErr
		want syscall.Errno
	}{
		{unix.SockExtendedErr{Origin: unix.SO_EE_ORIGIN_ICMP, Type: 3, Code: 3, Errno: uint32(syscall.ECONNREFUSED)}, syscall.ECONNREFUSED},
		{unix.SockExtendedErr{Origin: unix.SO_EE_ORIGIN_ICMP, Type: 3, Code: 1, Errno: uint32(syscall.EHOSTUNREACH)}, syscall.EHOSTUNREACH},
		{unix.SockExtendedErr{Origin: unix.SO_EE_ORIGIN_ICMP, Type: 3, Code: 9, Errno: uint32(syscall.ENETUNREACH)}, syscall.EACCES},
		{unix.SockExtendedErr{Origin: unix.SO_EE_ORIGIN_ICMP, Type: 3, Code: 10, Errno: uint32(syscall.EHOSTUNREACH)}, syscall.EACCES},
		{unix.SockExtendedErr{Origin: unix.SO_EE_ORIGIN_ICMP, Type: 3, Code: 13, Errno: uint32(syscall.EHOSTUNREACH)}, syscall.EACCES},
		{unix.SockExtendedErr{Origin: unix.SO_EE_ORIGIN_ICMP, Type: 11, Code: 13, Errno: uint32(syscall.EHOSTUNREACH)}, syscall.EHOSTUNREACH},
		{unix.SockExtendedErr{Origin: unix.SO_EE_ORIGIN_ICMP6, Type: 1, Code: 1, Errno: uint32(syscall.EACCES)}, syscall.EACCES},
	} {
		if got := errnoOf(&c.e); got != c.want {
			t.Errorf("%+v: found %v, expected %v", c.e, got, c.want)
		}
	}
}
