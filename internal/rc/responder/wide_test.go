package responder

import (
	"testing"
	"time"
)

// Peers that ask for more share the store evenly. One that has stopped asking leaves its share to
// the others, and so does one whose queue pair ends.
func TestWideSharesAreEven(t *testing.T) {
	const room = 90 << 20
	s := NewStore(room)
	ask := func(o *reordering, seconds int) int {
		n := s.share(time.Duration(seconds)*time.Second, o)
		o.store, o.wide = s, wide{span: 1, at: time.Duration(seconds) * time.Second}
		return n
	}
	var a, b, c reordering
	for _, x := range []struct {
		who     *reordering
		seconds int
		part    int
	}{{&a, 0, 1}, {&b, 1, 2}, {&a, 2, 2}, {&c, 3, 3}, {&c, 12, 2}, {&c, 14, 1}, {&a, 15, 2}} {
		if n := ask(x.who, x.seconds); n != room/x.part {
			t.Errorf("after %d s: %d bytes, expected 1/%d of %d", x.seconds, n, x.part, room)
		}
	}
	if b.wide.span != 0 {
		t.Error("a peer that asks no more keeps its share")
	}
	c.narrow()
	if n := ask(&a, 16); n != room {
		t.Errorf("%d bytes for the last one", n)
	}
}
