package control

import (
	"strings"
	"testing"
	"time"

	"softrdma/internal/management/routing"
	"softrdma/internal/wire/ib"
)

// ask is do for a request with more than arguments.
func (w *world) ask(r Request) *Reply {
	w.t.Helper()
	reply, err := Do(w.now, w.Subnet, w.manager, r)
	if err != nil {
		w.t.Fatalf("%+v: %v", r, err)
	}
	return &reply
}

func TestLoadArrivesAtItsRate(t *testing.T) {
	w := newWorld(t, "fat-tree:k=4", 0, routing.FatTree)
	r := w.ask(Request{Verb: VerbLoad, Args: []string{"node-0", "node-9"}, Load: &LoadRequest{Size: 1024, Packets: 500, Rate: 100_000}})
	if len(r.Loads) != 1 || r.Loads[0].From != "node-0" || r.Loads[0].To != "node-9" {
		t.Fatalf("%+v", r.Loads)
	}
	w.run(time.Millisecond)
	if l := w.do(VerbLoad).Loads[0]; l.Sent != 101 || l.Arrived < 100 {
		t.Errorf("after a millisecond: %+v, expected a packet each 10 µs", l)
	}
	w.run(10 * time.Millisecond)
	if l := w.do(VerbLoad).Loads[0]; l.Sent != 500 || l.Arrived != 500 || len(w.hosts[9].got) != 0 {
		t.Errorf("at the end: %+v", l)
	}
	if len(w.drops) != 0 {
		t.Errorf("dropped: %v", w.drops)
	}
	if r := w.ask(Request{Verb: VerbLoad, Load: &LoadRequest{Stop: true}}); len(r.Loads) != 0 {
		t.Errorf("after the stop: %+v", r.Loads)
	}
}

func TestLoadsOfARingDeadlockOnOneLaneAlone(t *testing.T) {
	for _, c := range []struct {
		vls       int
		algorithm routing.Algorithm
		deadlock  int
	}{{1, routing.MinHop, 5}, {2, routing.Torus, 0}} {
		w := newWorld(t, "ring:5", c.vls, c.algorithm)
		w.ask(Request{Verb: VerbLoad, Load: &LoadRequest{Shift: 2, Size: 2048, Packets: 1000}})
		w.run(20 * time.Millisecond)
		arrived := 0
		for _, l := range w.do(VerbLoad).Loads {
			arrived += l.Arrived
		}
		d := w.do(VerbDeadlock).Deadlock
		if len(d.Deadlock) != c.deadlock || (arrived == 5000) != (c.deadlock == 0) || len(w.drops) != 0 {
			t.Errorf("%v: %d of 5000 arrived, deadlock %+v, drops %v", c.algorithm, arrived, d.Deadlock, w.drops)
		}
		if w.ask(Request{Verb: VerbLoad, Load: &LoadRequest{Stop: true}}); c.deadlock == 0 {
			continue
		}
		// What stands still stays after the loads have ended, and is not counted for others.
		w.ask(Request{Verb: VerbLoad, Load: &LoadRequest{Shift: 1, Size: 4, Packets: 1}})
		w.run(time.Millisecond)
		if d := w.do(VerbDeadlock).Deadlock; len(d.Deadlock) != 5 {
			t.Errorf("after the loads: %+v", d.Deadlock)
		}
	}
}

func TestStalledAdapterTakesOtherLevels(t *testing.T) {
	w := newWorld(t, "star:2", 2, routing.MinHop)
	w.ask(Request{Verb: VerbStall, Args: []string{"node-1"}, Levels: []int{0}})
	for sl := range uint8(2) {
		w.ask(Request{Verb: VerbLoad, Args: []string{"node-0", "node-1"}, SL: &sl, Load: &LoadRequest{Size: 2048, Packets: 300}})
	}
	w.run(5 * time.Millisecond)
	if l := w.do(VerbLoad).Loads; l[0].Arrived != 0 || l[0].Sent == 300 || l[1].Arrived != 300 {
		t.Errorf("with node-1 stalled: %+v", l)
	}
	if d := w.do(VerbDeadlock).Deadlock; len(d.Still) != 2 || d.Still[0].Cause != CauseProgram || len(d.Deadlock) != 0 {
		t.Errorf("standing lanes: %+v", d.Still)
	}
	if s := w.do(VerbStall).Stalled; len(s) != 1 || s[0].Node != "node-1" || len(s[0].Levels) != 1 {
		t.Errorf("%+v", s)
	}
	w.do(VerbStall, "node-1") // no level any more
	w.run(5 * time.Millisecond)
	if l := w.do(VerbLoad).Loads; l[0].Arrived != 300 || len(w.do(VerbStall).Stalled) != 0 || len(w.drops) != 0 {
		t.Errorf("at the end: %+v, drops %v", l, w.drops)
	}
}

// Test traffic of a program is the subnet's, whatever number it has.
func TestForgedLoadPacketsAreTaken(t *testing.T) {
	w := newWorld(t, "star:2", 0, routing.MinHop)
	w.ask(Request{Verb: VerbLoad, Args: []string{"node-0", "node-1"}, Load: &LoadRequest{Size: 4, Packets: 1}})
	for _, payload := range [][]byte{nil, {1, 2, 3, 4}, {0xff, 0xff, 0xff, 0xff}} {
		p := ib.Packet{BTH: ib.BTH{Opcode: ib.UDSendOnly, PKey: 0xffff, DestQPN: 7}, Payload: payload}
		f := ib.AppendNative(nil, ib.LRH{Next: ib.LocalBTH, DLID: ib.LID(w.lid(1)), SLID: ib.LID(w.lid(0))}, nil, &p)
		f[ib.LRHLen] = 0xc0
		ib.PutVCRC(f)
		w.hosts[1].refuses = func(ib.LRH) bool { t.Errorf("payload % x reached the program", payload); return false }
		if len(payload) == 0 {
			w.hosts[1].refuses = nil
		}
		w.Send(w.now, w.fabricEnd("node-0"), f)
		w.run(time.Millisecond)
	}
	if l := w.do(VerbLoad).Loads[0]; l.Arrived != 1 {
		t.Errorf("%+v", l)
	}
}

func TestLoadsThatMakeNoSenseAreRefused(t *testing.T) {
	w := newWorld(t, "star:3", 0, routing.MinHop)
	pair := []string{"node-0", "node-1"}
	for _, c := range []struct {
		args []string
		load LoadRequest
		want string
	}{
		{pair, LoadRequest{Size: 3, Packets: 1}, "multiple of four"},
		{pair, LoadRequest{Size: 8192, Packets: 1}, "up to 4096"},
		{pair, LoadRequest{Size: 64}, "at least 1"},
		{pair, LoadRequest{Size: 64, Packets: 1 << 30}, "without a rate"},
		{pair, LoadRequest{Size: 64, Packets: 1, Rate: 1e9}, "packets a second"},
		{pair, LoadRequest{Size: 64, Packets: 1, Rate: -1}, "packets a second"},
		{nil, LoadRequest{Size: 64, Packets: 1, Shift: 3}, "expected 1 to 2"},
		{nil, LoadRequest{Size: 64, Packets: 1}, "two end ports or a shift"},
		{pair, LoadRequest{Size: 64, Packets: 1, Shift: 1}, "no other argument"},
		{[]string{"switch-0", "node-1"}, LoadRequest{Size: 64, Packets: 1}, "expected an adapter"},
	} {
		_, err := Do(w.now, w.Subnet, w.manager, Request{Verb: VerbLoad, Args: c.args, Load: &c.load})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q %+v: %v, expected %q", c.args, c.load, err, c.want)
		}
	}
	if _, err := Do(w.now, w.Subnet, w.manager, Request{Verb: VerbStall, Args: []string{"node-0"}, Levels: []int{16}}); err == nil || len(w.Loads()) != 0 {
		t.Errorf("%v, loads %+v", err, w.Loads())
	}
}
