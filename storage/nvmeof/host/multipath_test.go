package host_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"softrdma/faults"
	"softrdma/storage/nvmeof/host"
	"softrdma/storage/nvmeof/wire/logpage"
	"softrdma/storage/nvmeof/wire/status"
)

// used returns how many reads and writes each end has had since the last call.
func used(last []uint64, ends ...*end) []uint64 {
	list := make([]uint64, len(ends))
	for i, e := range ends {
		traffic := e.target.Subsystems().Traffic(e.sub)
		now := traffic.Reads + traffic.Writes
		list[i], last[i] = now-last[i], now
	}
	return list
}

func TestPathsAreChosenByTheirStates(t *testing.T) {
	simulate(t, func(r *rig) {
		d := newDisk(r.t)
		a, b := r.serve(d), r.serve(d)
		_, n := r.connect(host.Config{}, a, b)
		b512 := make([]byte, 512)
		last := make([]uint64, 2)
		const reads = 100
		read := func() {
			r.t.Helper()
			for range reads {
				if _, err := n.ReadAt(b512, 0); err != nil {
					r.t.Fatal(err)
				}
			}
		}
		set := func(e *end, state logpage.ANAState) {
			e.target.Subsystems().SetState(e.sub, 1, state)
			time.Sleep(time.Second)
		}
		for _, x := range []struct {
			a, b   logpage.ANAState
			at     int // end that is used; -1: both in turn
			reason string
		}{
			{logpage.ANAOptimized, logpage.ANAOptimized, -1, "equal paths in turn"},
			{logpage.ANAOptimized, logpage.ANANonOptimized, 0, "the optimized path"},
			{logpage.ANANonOptimized, logpage.ANAOptimized, 1, "the optimized path"},
			{logpage.ANANonOptimized, logpage.ANANonOptimized, -1, "equal paths in turn"},
			{logpage.ANAStateNoAccess, logpage.ANANonOptimized, 1, "the path that can be used"},
			{logpage.ANAOptimized, logpage.ANALost, 0, "the path that can be used"},
		} {
			set(a, x.a)
			set(b, x.b)
			used(last, a, b)
			read()
			got := used(last, a, b)
			right := got[0] == reads/2 && got[1] == reads/2
			if x.at >= 0 {
				right = got[x.at] == reads
			}
			if !right {
				r.t.Errorf("expected %s, found %v", x.reason, got)
			}
		}
		// Commands wait while no path can be used, as long as one may come back.
		set(a, logpage.ANAStateNoAccess)
		ended := make(chan error, 1)
		go func() {
			_, err := n.ReadAt(b512, 0)
			ended <- err
		}()
		time.Sleep(time.Minute)
		select {
		case err := <-ended:
			r.t.Error("a command has not waited:", err)
		default:
		}
		set(b, logpage.ANAOptimized)
		if err := <-ended; err != nil {
			r.t.Error(err)
		}
		set(a, logpage.ANALost)
		set(b, logpage.ANALost)
		var failed *status.Error
		if _, err := n.ReadAt(b512, 0); !errors.As(err, &failed) || failed.Status != status.ANAPersistentLoss {
			r.t.Errorf("without any path: %v", err)
		}
	})
}

// TestPathThatChangesTooLongIsConnectedAgain: a host would wait for the end of the change without limit.
func TestPathThatChangesTooLongIsConnectedAgain(t *testing.T) {
	simulate(t, func(r *rig) {
		e := r.serve(newDisk(r.t))
		_, n := r.connect(host.Config{LossTimeout: time.Minute}, e)
		set := func(state logpage.ANAState) { e.target.Subsystems().SetState(e.sub, 1, state) }
		set(logpage.ANAStateChanging)
		time.Sleep(15 * time.Second)
		set(logpage.ANAOptimized)
		time.Sleep(time.Minute)
		if n := r.happened(host.Lost); n != 0 {
			r.t.Errorf("a change of 15 s has ended %d connections", n)
		}
		began := time.Now()
		set(logpage.ANAStateChanging)
		for r.happened(host.Lost) == 0 && time.Since(began) < time.Minute {
			time.Sleep(time.Second)
		}
		if took := time.Since(began); took < 19*time.Second || took > 22*time.Second {
			r.t.Errorf("expected the end of the connection after 20 s, found %v", took)
		}
		set(logpage.ANAOptimized)
		if _, err := n.ReadAt(make([]byte, 512), 0); err != nil {
			r.t.Error(err)
		}
	})
}

// Commands continue by the other path, however the first is lost.
func TestCommandsGoOnByTheOtherPath(t *testing.T) {
	simulate(t, func(r *rig) {
		d := newDisk(r.t)
		a, b := r.serve(d), r.serve(d)
		_, n := r.connect(host.Config{LossTimeout: -1, Queues: 2}, a, b)
		l := r.load(n, 500*time.Millisecond)
		time.Sleep(100 * time.Millisecond)
		for range 2 {
			for _, e := range []*end{a, b} {
				e.stop() // the target ends
				time.Sleep(5 * time.Second)
				e.start(nqn, d)
				time.Sleep(5 * time.Second)
				e.net.Kill() // the network loses all packets
				time.Sleep(90 * time.Second)
				e.net.Restore()
				time.Sleep(60 * time.Second)
			}
		}
		l.end(r.t)
		if lost, again := r.happened(host.Lost), r.happened(host.Connected); lost != 8 || again != 8 {
			r.t.Errorf("lost %d times, connected again %d times: %v", lost, again, r.events)
		}
	})
}

// A path that was not there at first is used later.
func TestPathsMayComeLater(t *testing.T) {
	simulate(t, func(r *rig) {
		d := newDisk(r.t)
		a, b := r.serve(d), r.serve(d)
		b.stop()
		_, n := r.connect(host.Config{LossTimeout: -1}, a, b)
		time.Sleep(30 * time.Second)
		b.start(nqn, d)
		time.Sleep(30 * time.Second)
		a.stop()
		if _, err := n.ReadAt(make([]byte, 512), 0); err != nil {
			r.t.Error(err)
		}
		a.start(nqn, d)
	})
}

// A path whose controller is being connected again while the program opens the namespace is used
// afterwards.
func TestNamespaceOpenedDuringReconnectHasAllPaths(t *testing.T) {
	simulate(t, func(r *rig) {
		d := newDisk(r.t)
		a, b := r.serve(d), r.serve(d)
		s, _ := r.connect(host.Config{LossTimeout: 20 * time.Second}, a, b)
		a.stop()
		// The host looks at the namespaces that it has open, which takes until the second is opened.
		slow := faults.Rule{Action: faults.DelayCommand, Time: faults.Duration(5 * time.Second)}
		slow.Select.Command, slow.Select.Namespace = []string{"identify"}, 1
		if err := a.net.Device.Faults().Set(faults.Rules{Rules: []faults.Rule{slow}}); err != nil {
			r.t.Fatal(err)
		}
		a.start(nqn, d)
		time.Sleep(4 * time.Second)
		if hits := a.net.Device.Faults().Counts(); hits[0] == 0 || r.happened(host.Connected) != 0 {
			r.t.Fatalf("hits %v, events %v", hits, r.events)
		}
		n, err := s.Namespace(r.t.Context(), 1)
		if err != nil {
			r.t.Fatal(err)
		}
		time.Sleep(30 * time.Second)
		b.stop()
		if _, err := n.ReadAt(make([]byte, 512), 0); err != nil {
			r.t.Error(err)
		}
		b.start(nqn, d)
	})
}

// A namespace of the same number with other identifiers is another one.
func TestAnotherNamespaceIsNoPath(t *testing.T) {
	simulate(t, func(r *rig) {
		d, other := newDisk(r.t), newDisk(r.t)
		a := r.serve(d)
		_, n := r.connect(host.Config{LossTimeout: 20 * time.Second}, a)
		a.stop()
		// The same subsystem's name, and a smaller namespace.
		small, err := newSmall()
		if err != nil {
			r.t.Fatal(err)
		}
		a.start(nqn, small)
		_, err = n.ReadAt(make([]byte, 512), 0)
		if err == nil || !strings.Contains(err.Error(), "not usable") {
			r.t.Errorf("got %v", err)
		}
		if r.happened(host.Differs) != 1 || other.accesses() != 0 {
			r.t.Errorf("events %v", r.events)
		}
	})
}
