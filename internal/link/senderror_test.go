package link_test

import (
	"fmt"
	"syscall"
	"testing"

	"softrdma/internal/link"
	"softrdma/internal/reason"
)

func TestSendDetailNamesTheReason(t *testing.T) {
	gone := reason.Detail{Reason: reason.FabricGone, Expected: 1}
	for _, c := range []struct {
		err  error
		want reason.Detail
	}{
		{fmt.Errorf("send: %w", gone.Err()), gone},
		{fmt.Errorf("send: %w", syscall.ENOBUFS), reason.Detail{Reason: reason.SendFailed, Expected: 100, Found: uint64(syscall.ENOBUFS)}},
		{syscall.ECONNREFUSED, reason.Detail{Reason: reason.SendRefused, Expected: 100, Found: uint64(syscall.ECONNREFUSED)}},
	} {
		if got := link.SendDetail(c.err, 100); got != c.want {
			t.Errorf("%v: %v, expected %v", c.err, got, c.want)
		}
	}
}
