package link

import (
	"fmt"
	"syscall"

	"softrdma/internal/reason"
)

func init() {
	reason.Name(reason.NumFamily, func(n uint64) string {
		switch n { // of Linux, on every system
		case 2:
			return "IPv4"
		case 10:
			return "IPv6"
		}
		return ""
	})
	reason.Name(reason.NumErrno, func(n uint64) string {
		if n == 0 {
			return "0 (none)"
		}
		return fmt.Sprintf("%d (%v)", n, syscall.Errno(n))
	})
}
