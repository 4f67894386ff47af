package link

import (
	"fmt"
	"syscall"

	"softrdma/internal/reason"
)

func init() {
	reason.Name(reason.NumErrno, func(n uint64) string {
		if n == 0 {
			return "0 (none)"
		}
		return fmt.Sprintf("%d (%v)", n, syscall.Errno(n))
	})
}
