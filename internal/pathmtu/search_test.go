package pathmtu

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

const wait = 100 * time.Millisecond

// A path carries packets of path MTUs up to limit, answers after delay, and loses the first probes.
type path struct {
	limit, lose int
	now         time.Duration
	probes      []int
}

// run drives a search until its state is one of those, or nothing is left to do before the time.
func (p *path) run(s *Search, until time.Duration) {
	for p.now < until {
		if s.Due() {
			mtu := s.Probe(p.now)
			p.probes = append(p.probes, mtu)
			if p.lose > 0 {
				p.lose--
			} else if mtu <= p.limit {
				p.now += wait / 10
				s.Answer(p.now, mtu)
			}
			continue
		}
		if s.Deadline() >= until {
			p.now = until
			return
		}
		p.now = max(p.now, s.Deadline())
		s.Expire(p.now)
	}
}

func TestSearchFindsWhatPasses(t *testing.T) {
	for _, c := range []struct {
		name        string
		limit, lose int
		want        State
		known       int
	}{
		{"false alarm", 4096, 0, Whole, 4096},
		{"false alarm, two probes lost", 4096, 2, Whole, 4096},
		{"half", 2048, 0, Narrow, 2048},
		{"least", 256, 0, Narrow, 256},
		{"between", 1500, 1, Narrow, 1024},
		{"peer gone", 0, 0, Silent, 0},
	} {
		p, s := &path{limit: c.limit, lose: c.lose}, &Search{}
		if s.Fragments() || s.Deadline() != never {
			t.Fatal("a new search does something")
		}
		s.Suspect(0, 4096, wait)
		if !s.Fragments() || s.State() != Searching {
			t.Errorf("%s: nothing fragmented while searching", c.name)
		}
		p.run(s, firstRaise)
		if s.State() != c.want || s.Known() != c.known || s.Fragments() == (c.want == Whole) {
			t.Errorf("%s: state %d, known %d, probes %v", c.name, s.State(), s.Known(), p.probes)
		}
	}
}

// A peer that answers with path MTUs which were not probed changes nothing. Later connections would begin with them.
func TestSearchIgnoresAnswersToNoProbe(t *testing.T) {
	var s Search
	s.Suspect(0, 4096, wait)
	p := &path{limit: 0}
	p.run(&s, wait)
	for _, mtu := range []int{-1, 0, 1, 300, 1024, 2048, 4095, 8192} {
		s.Answer(p.now, mtu)
		if s.Known() != 0 || s.State() != Searching {
			t.Fatalf("path MTU %d is known after an answer of %d", s.Known(), mtu)
		}
	}
	for s.size != 1024 {
		p.run(&s, p.now+wait)
	}
	for _, mtu := range []int{512, 1025, 1500, 3072} {
		if s.Answer(p.now, mtu); s.Known() != 0 {
			t.Fatalf("path MTU %d is known after an answer of %d", s.Known(), mtu)
		}
	}
	if s.Answer(p.now, 2048); s.Known() != 2048 {
		t.Error("a late answer is ignored")
	}
}

// A path that grows is noticed when it is probed again, at longer and longer intervals.
func TestSearchNoticesThatThePathGrows(t *testing.T) {
	p, s := &path{limit: 1024}, &Search{}
	s.Suspect(0, 4096, wait)
	p.run(s, 5*time.Minute)
	if s.State() != Narrow || len(p.probes) > 100 {
		t.Fatalf("state %d after probes %v", s.State(), p.probes)
	}
	p.limit = 2048
	p.run(s, 20*time.Minute)
	if s.State() != Narrow || s.Known() != 2048 {
		t.Errorf("state %d, known %d after the path grew to 2048", s.State(), s.Known())
	}
	p.limit = 4096
	p.run(s, 40*time.Minute)
	if s.Fragments() || s.Known() != 4096 {
		t.Errorf("state %d, known %d after the path grew to 4096", s.State(), s.Known())
	}
	p.limit = 256
	s.Suspect(p.now, 4096, wait)
	p.run(s, p.now+10*time.Second)
	if s.State() != Narrow || s.Known() != 256 {
		t.Errorf("state %d, known %d after the path shrank again", s.State(), s.Known())
	}
}

// A path that shrinks while it is narrow is found narrower: what passed in the search before says nothing.
func TestSearchNoticesThatANarrowPathShrinks(t *testing.T) {
	p, s := &path{limit: 2048}, &Search{}
	s.Suspect(0, 4096, wait)
	p.run(s, firstRaise)
	if s.State() != Narrow || s.Known() != 2048 {
		t.Fatalf("state %d, known %d", s.State(), s.Known())
	}
	for _, c := range []struct {
		limit, known int
		state        State
	}{{1024, 1024, Narrow}, {512, 512, Narrow}, {0, 0, Silent}, {2048, 2048, Narrow}} {
		p.limit = c.limit
		p.run(s, s.Deadline()+time.Minute)
		if s.State() != c.state || s.Known() != c.known {
			t.Errorf("the path carries %d: state %d, known %d", c.limit, s.State(), s.Known())
		}
	}
}

// Whatever is answered and when, probes are as long as path MTUs up to the connection's, few, and packets are whole
// exactly when the last word was that those of the path MTU pass.
func TestSearchIsBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		mtu := 256 << rapid.IntRange(0, 4).Draw(t, "mtu")
		var s Search
		var now time.Duration
		sent := 0
		s.Suspect(0, mtu, wait)
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			now += time.Duration(rapid.IntRange(0, int(time.Second)).Draw(t, "time"))
			switch rapid.IntRange(0, 3).Draw(t, "what") {
			case 0:
				s.Answer(now, rapid.IntRange(0, 8192).Draw(t, "answer"))
			case 1:
				s.Suspect(now, mtu, wait)
			default:
				s.Expire(now)
			}
			if s.Due() {
				if n := s.Probe(now); n > mtu || n < leastMTU {
					t.Fatalf("probe of %d, path MTU %d", n, mtu)
				}
				sent++
			}
			if !s.Fragments() && s.Known() != mtu || s.Known() > mtu {
				t.Fatalf("state %d, known %d", s.State(), s.Known())
			}
		}
	})
}
