package tcp

import (
	"errors"
	"fmt"
	"syscall"
)

// windowsErrors has the numbers of Windows Sockets that say what other systems say by an errno. No other system uses
// them, and package syscall gives the names numbers of its own on Windows, which no call returns.
var windowsErrors = map[syscall.Errno]syscall.Errno{
	10048: syscall.EADDRINUSE,
	10049: syscall.EADDRNOTAVAIL,
	10050: syscall.ENETDOWN,
	10051: syscall.ENETUNREACH,
	10052: syscall.ETIMEDOUT, // WSAENETRESET: keep-alives were not answered
	10053: syscall.ECONNABORTED,
	10054: syscall.ECONNRESET,
	10060: syscall.ETIMEDOUT,
	10061: syscall.ECONNREFUSED,
	10064: syscall.EHOSTUNREACH, // WSAEHOSTDOWN
	10065: syscall.EHOSTUNREACH,
}

// named translates errors of Windows to those of other systems. It returns the others as they are.
func named(err error) error {
	var no syscall.Errno
	if !errors.As(err, &no) {
		return err
	}
	if same, ok := windowsErrors[no]; ok {
		return fmt.Errorf("%w (%w)", same, err)
	}
	return err
}
