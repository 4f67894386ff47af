//go:build linux

package client

import (
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"softrdma/internal/reason"
)

// openFiles returns how many descriptors this process has open.
func openFiles(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// All users together leave the server descriptors for its own work.
func TestUsersTogetherLeaveAReserve(t *testing.T) {
	s := NewBudget(0)
	limit := descriptorLimit() - int64(openFiles(t))
	step := max(limit/100, 1)
	var held int64
	for range 10 { // users
		a := s.NewAccount()
		var mine int64
		for a.Descriptors.Take(step) == nil {
			mine += step
		}
		if mine > limit/2 {
			t.Errorf("one user holds %d of %d", mine, limit)
		}
		held += mine
	}
	if held == 0 || held > limit/4*3 {
		t.Errorf("all users hold %d of %d, expected three quarters at most", held, limit)
	}
	a := s.NewAccount()
	err := a.Descriptors.Take(2 * step)
	if no := Errno(err); no != unix.EMFILE || !strings.Contains(err.Error(), "SERVER_RESERVE") || a.Descriptors.Held() != 0 {
		t.Errorf("one more user: %v (%v), holds %d", err, no, a.Descriptors.Held())
	}
}

func TestLogLimitsTheLinesOfEachReason(t *testing.T) {
	var l logLimit
	now := time.Unix(1000, 0)
	logged := 0
	for range 10 * logBurst {
		if omitted, ok := l.pass(reason.ClientUser, now); ok {
			logged++
			if omitted != 0 {
				t.Errorf("%d lines were left out before the first", omitted)
			}
		}
	}
	if logged != logBurst {
		t.Errorf("%d lines at once, expected %d", logged, logBurst)
	}
	if _, ok := l.pass(reason.ClientLimit, now); !ok {
		t.Error("another reason's line was left out")
	}
	now = now.Add(logEvery)
	if omitted, ok := l.pass(reason.ClientUser, now); !ok || omitted != 9*logBurst {
		t.Errorf("a second later: found %v with %d left out, expected true with %d", ok, omitted, 9*logBurst)
	}
	if _, ok := l.pass(reason.ClientUser, now); ok {
		t.Error("two lines in that second")
	}
}
