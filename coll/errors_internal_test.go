package coll

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// A notice says at the other end what it said here.
func TestNoticeKeepsRankAndCause(t *testing.T) {
	for _, cause := range causes {
		for _, text := range []string{"", "because", strings.Repeat("x", 2*maxText)} {
			e := &MemberError{299, fmt.Errorf("%w: %s", cause, text)}
			got := parseNotice(notice(e), 300, 1)
			if got.Rank != 299 || !errors.Is(got, cause) || !errors.Is(got, ErrMember) || !strings.HasPrefix(e.Err.Error(), got.Err.Error()) {
				t.Errorf("%v became %v", e, got)
			}
		}
	}
}

// FuzzNotice reads what a member sends. What no member sends is the sender's failure.
func FuzzNotice(f *testing.F) {
	f.Add(notice(&MemberError{2, ErrLength}))
	f.Add([]byte{})
	f.Add([]byte{200, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		const n, sender = 5, 3
		e := parseNotice(b, n, sender)
		if e.Rank < 0 || e.Rank >= n || !errors.Is(e, ErrMember) || e.Error() == "" {
			t.Errorf("%v", e)
		}
		if again := parseNotice(notice(e), n, sender); again.Rank != e.Rank {
			t.Errorf("rank %d became %d", e.Rank, again.Rank)
		}
	})
}
