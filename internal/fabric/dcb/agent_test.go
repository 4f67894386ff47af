package dcb

import (
	"testing"

	"softrdma/internal/reason"
	"softrdma/internal/wire/ethernet"
)

// settings are with one lossless priority that has a share of the link.
func settings(willing bool, priority, percent uint8) Settings {
	s := Settings{PFC: ethernet.PFC{Willing: willing, Limit: 8, Enable: 1 << priority}, TakeApplications: willing,
		Applications: []ethernet.Application{{Priority: priority, Selector: ethernet.ByUDP, Number: 4791}}}
	s.Selection.Willing = willing
	s.Selection.Class[priority] = 1
	s.Selection.Percent = [8]uint8{100 - percent, percent}
	s.Selection.Algorithm = [8]ethernet.Selection{ethernet.Enhanced, ethernet.Enhanced}
	return s
}

// exchange lets two agents talk for a time. Their frames pass as bytes.
func exchange(t *testing.T, a, b *Agent, until Time) (frames int) {
	t.Helper()
	for now := Time(0); now <= until; now = min(a.Deadline(), b.Deadline()) {
		for _, pair := range [][2]*Agent{{a, b}, {b, a}} {
			f := pair[0].Next(now)
			if f == nil {
				continue
			}
			frames++
			l := new(ethernet.LLDP)
			if d := l.Parse(f.Append(nil)); d.Reason != reason.None {
				t.Fatal(d)
			}
			pair[1].Receive(now, l)
		}
	}
	return frames
}

func TestAgentsAgree(t *testing.T) {
	for _, c := range []struct {
		name              string
		low, high         Settings // of the port with the lower address, and of the other one
		pfcLow, pfcHigh   uint8
		percLow, percHigh uint8 // of class 1
		appLow, appHigh   uint8
		mismatches        []reason.Reason
	}{
		{"the willing host takes the switch's", settings(true, 3, 50), settings(false, 4, 70), 1 << 4, 1 << 4, 70, 70, 4, 4, nil},
		{"and with the addresses the other way round", settings(false, 4, 70), settings(true, 3, 50), 1 << 4, 1 << 4, 70, 70, 4, 4, nil},
		{"both willing: PFC of the lower address (802.1Q 38.4.2), ETS of each other", settings(true, 3, 50), settings(true, 4, 70), 1 << 3, 1 << 3, 70, 50, 3, 3,
			[]reason.Reason{reason.EthernetMismatchETS}},
		{"the same, neither willing", settings(false, 3, 50), settings(false, 3, 50), 1 << 3, 1 << 3, 50, 50, 3, 3, nil},
		{"different, neither willing", settings(false, 3, 50), settings(false, 4, 70), 1 << 3, 1 << 4, 50, 70, 3, 4,
			[]reason.Reason{reason.EthernetMismatchPFC, reason.EthernetMismatchETS, reason.EthernetMismatchApplication}},
	} {
		low, high := NewAgent(1, "swp1", "a", c.low), NewAgent(2, "eth0", "b", c.high)
		exchange(t, low, high, 10*Second)
		for _, e := range []struct {
			a            *Agent
			pfc, pc, app uint8
		}{{low, c.pfcLow, c.percLow, c.appLow}, {high, c.pfcHigh, c.percHigh, c.appHigh}} {
			s := e.a.InForce()
			app, _ := s.Priority(ethernet.ByUDP, 4791)
			if s.PFC.Enable != e.pfc || s.Selection.Percent[1] != e.pc || app != e.app {
				t.Errorf("%s: PFC %#x, %d percent, application %d; expected %#x, %d, %d", c.name, s.PFC.Enable, s.Selection.Percent[1], app, e.pfc, e.pc, e.app)
			}
			var found []reason.Reason
			for _, d := range e.a.Mismatches() {
				found = append(found, d.Reason)
			}
			if len(found) != len(c.mismatches) {
				t.Errorf("%s: mismatches %v, expected %v", c.name, found, c.mismatches)
			}
			for i := range min(len(found), len(c.mismatches)) {
				if found[i] != c.mismatches[i] {
					t.Errorf("%s: mismatches %v, expected %v", c.name, found, c.mismatches)
				}
			}
		}
	}
}

func TestAgentSpeaksOftenAtFirstAndForgetsASilentNeighbor(t *testing.T) {
	a, b := NewAgent(1, "swp1", "a", settings(true, 3, 50)), NewAgent(2, "eth0", "b", settings(false, 4, 70))
	if n := exchange(t, a, b, 5*Second); n < 2*fastCount || n > 3*fastCount {
		t.Errorf("%d frames in five seconds", n)
	}
	if n := exchange(t, a, b, 65*Second); n > 8 {
		t.Errorf("%d frames in the next minute", n)
	}
	if a.InForce().PFC.Enable != 1<<4 || a.Neighbor() == nil {
		t.Fatalf("%+v", a.InForce())
	}
	for now := 65 * Second; now < 300*Second; now = a.Deadline() {
		a.Next(now)
	}
	if a.Neighbor() != nil || a.InForce().PFC.Enable != 1<<3 {
		t.Errorf("the settings of a neighbor that fell silent are in force: %+v", a.InForce())
	}
}

func TestAgentForgetsANeighborThatLeaves(t *testing.T) {
	a, b := NewAgent(1, "swp1", "a", settings(true, 3, 50)), NewAgent(2, "eth0", "b", settings(false, 4, 70))
	exchange(t, a, b, 5*Second)
	leave := *b.Next(40 * Second)
	leave.TTL = 0
	a.Receive(40*Second, &leave)
	if a.InForce().PFC.Enable != 1<<3 {
		t.Errorf("%+v", a.InForce())
	}
}

// Two ends that take each other's application priorities never agree, and a neighbor may call itself otherwise
// in each frame. Neither makes an agent send more than LLDP allows.
func TestAgentSendsNoMoreThanItsCredit(t *testing.T) {
	low, high := settings(false, 3, 50), settings(false, 4, 50)
	low.TakeApplications, high.TakeApplications = true, true
	a, b := NewAgent(1, "swp1", "a", low), NewAgent(2, "eth0", "b", high)
	const limit = 5 + 10 // txCreditMax, and one for each second
	frames := 0
	for now := Time(0); now <= 10*Second && frames <= 2*limit; now = min(a.Deadline(), b.Deadline()) {
		agents, under := [2]*Agent{a, b}, [2]*ethernet.LLDP{}
		for i, x := range agents { // both send before either receives
			if f := x.Next(now); f != nil {
				frames++
				l := *f
				under[i] = &l
			}
		}
		for i, l := range under {
			if l != nil {
				agents[1-i].Receive(now, l)
			}
		}
	}
	if frames > 2*limit {
		t.Errorf("two agents have sent more than %d frames in 10 s", 2*limit)
	}
	a, frames = NewAgent(1, "swp1", "a", low), 0
	for now := Time(0); now <= 10*Second; now += Millisecond {
		l := ethernet.LLDP{Src: ethernet.MAC{2, 0, 0, 0, byte(now / Millisecond >> 8), byte(now / Millisecond)}, TTL: 1}
		a.Receive(now, &l)
		if a.Next(now) != nil {
			frames++
		}
	}
	if frames > limit {
		t.Errorf("%d frames for a neighbor that changes, expected at most %d", frames, limit)
	}
}
