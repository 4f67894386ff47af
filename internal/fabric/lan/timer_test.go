package lan

import (
	"slices"
	"testing"

	"softrdma/internal/fabric/dcb"
)

func TestTimersOfNodesAreDueOnceAndInOrder(t *testing.T) {
	type expiry struct {
		at   dcb.Time
		node int
	}
	var got []expiry
	var n *Network
	n = New(Config{Fabric: generate(t, "star:2"), Link: lossless(), Expired: func(now dcb.Time, node int) {
		got = append(got, expiry{now, node})
		if node == 1 && len(got) < 4 {
			n.SetTimer(1, now+5)
		}
	}})
	n.SetTimer(0, 12)
	n.SetTimer(1, 10)
	n.SetTimer(2, 11)
	n.SetTimer(2, dcb.Never)
	n.Run(100)
	if want := []expiry{{10, 1}, {12, 0}, {15, 1}, {20, 1}}; !slices.Equal(got, want) {
		t.Errorf("%v, expected %v", got, want)
	}
	if n.Deadline() != dcb.Never || n.Now() != 100 {
		t.Errorf("next event at %d, now %d", n.Deadline(), n.Now())
	}
}
