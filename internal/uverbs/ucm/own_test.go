//go:build linux

package ucm

import (
	"fmt"
	"syscall"
	"testing"

	"softrdma/internal/cmid"
	"softrdma/internal/uverbs/client"
	"softrdma/internal/uverbs/uapi"
)

// Programs on librdmacm get EINVAL for a connection that is over, as from the
// kernel; the programs of this module get a distinct number.
func TestConnectionThatIsOverHasTheKernelsNumber(t *testing.T) {
	err := fmt.Errorf("attributes for INIT: %w", cmid.ErrOver)
	for own, want := range map[bool]syscall.Errno{false: syscall.EINVAL, true: uapi.ErrnoOver} {
		m := &channel{own: own}
		if no := client.Errno(m.withErrno(err)); no != want {
			t.Errorf("own %v: expected %v, found %v", own, want, no)
		}
	}
}
