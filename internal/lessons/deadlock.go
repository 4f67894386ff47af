package lessons

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	process "softrdma/internal/control"
	"softrdma/internal/fabric/control"
	"softrdma/internal/fabric/live"
	"softrdma/internal/fabric/port"
	"softrdma/internal/management/routing"
	"softrdma/internal/management/sm"
	"softrdma/internal/topology"
)

var deadlock = lesson{
	id: "deadlock", title: "Credits and a deadlock",
	summary: "Why InfiniBand loses no packet when a receiver is slow, and how switches can come to wait for each other in a circle.",
	begin:   beginDeadlock,
}

const (
	ring     = "ring:5"
	lessLoad = 200  // packets of an adapter to another one
	load     = 2000 // the same, enough to fill the buffers of a ring
	loadSize = 2048
)

// A deadlockLesson is the state of the lesson.
type deadlockLesson struct {
	*tour
	f *fabric
}

func beginDeadlock(t *tour) []step {
	x := &deadlockLesson{tour: t}
	return []step{x.build(), x.stop(), x.circle(), x.breakCircle(), x.otherRouting()}
}

func (x *deadlockLesson) build() step {
	return step{
		title: "Build a ring",
		text: "InfiniBand switches do not drop packets when a buffer is full. A port sends only while the port at the other end of the cable has given it " +
			"credit: room for packets in its buffer. Credit is counted for each virtual lane (VL) on its own.\n\nThis step builds a fabric in software: five " +
			"switches in a ring, each with an adapter. A subnet manager gives out addresses (LIDs) and fills the forwarding tables with shortest paths.",
		run: func(ctx context.Context, r *Result) (err error) {
			if x.f, err = x.newFabric(ctx, "lesson", routing.MinHop, 1); err != nil {
				return err
			}
			s, err := x.f.ask(control.Request{Verb: control.VerbStatus})
			if err != nil {
				return err
			}
			r.figure("switches, adapters", fmt.Sprintf("%d, %d", s.Status.Switches, s.Status.Adapters))
			r.figure("cables", fmt.Sprintf("%d active", s.Status.Links[control.LinkActive]))
			r.figure("virtual lanes", "1 for data")
			r.figure("LIDs", fmt.Sprint(s.Status.LIDs))
			r.say("The view Fabric shows this fabric while the lesson runs, and its cables can be cut there.")
			return nil
		},
	}
}

func (x *deadlockLesson) stop() step {
	return step{
		title: "A receiver that stops",
		text: fmt.Sprintf("Adapter node-1 takes no packets for a while, as if its program were stopped. node-0 sends it %d packets. Its buffer fills, then that of its "+
			"switch, and then node-0 has no credit.", lessLoad),
		explain: []string{"FABRIC_HOQ_LIFE"},
		run: func(ctx context.Context, r *Result) error {
			if _, err := x.f.ask(control.Request{Verb: control.VerbStall, Args: []string{"node-1"}, Levels: []int{0}}); err != nil {
				return err
			}
			if err := x.f.load(0, "node-0", "node-1"); err != nil {
				return err
			}
			stopped, err := x.f.arrived(ctx, standsStill)
			if err != nil {
				return err
			}
			d, err := x.f.ask(control.Request{Verb: control.VerbDeadlock})
			if err != nil {
				return err
			}
			if _, err := x.f.ask(control.Request{Verb: control.VerbStall, Args: []string{"node-1"}, Levels: []int{}}); err != nil {
				return err
			}
			after, err := x.f.arrived(ctx, allArrived)
			if err != nil {
				return err
			}
			r.figure("while it took none", fmt.Sprintf("%d of %d left node-0, %d arrived", stopped.sent, stopped.all, stopped.arrived))
			for _, l := range d.Deadlock.Still {
				r.figure(fmt.Sprintf("lane of %s:%d", l.Node, l.Port), fmt.Sprintf("stood still for %s, cause: %s", duration(l.Time), l.Cause))
			}
			r.Charts = append(r.Charts, stopped.chart("packets while it took none"), after.chart("packets afterwards"))
			r.figure("afterwards", fmt.Sprintf("%d of %d arrived", after.arrived, after.all))
			r.say(fmt.Sprintf("%d packets were kept in buffers until the receiver went on, and no packet was lost. The wait went back to the sender, hop by hop: this is "+
				"link-level flow control, and where it spreads to other traffic it is called congestion spreading.", stopped.sent-stopped.arrived))
			return x.f.stopLoads()
		},
	}
}

func (x *deadlockLesson) circle() step {
	return step{
		title: "A circle",
		text: fmt.Sprintf("Now each adapter sends %d packets to the one two switches further on, all at once and in the same direction. A packet leaves a switch's "+
			"buffer only when the next switch has room. In a ring, the last one waits for the first.", load),
		explain: []string{"FABRIC_HOQ_LIFE", "FABRIC_STALLED"},
		run: func(ctx context.Context, r *Result) error {
			if err := x.f.load(2); err != nil {
				return err
			}
			n, err := x.f.arrived(ctx, standsStill)
			if err != nil {
				return err
			}
			d, err := x.f.ask(control.Request{Verb: control.VerbDeadlock})
			if err != nil {
				return err
			}
			r.show(n, d.Deadlock)
			if len(d.Deadlock.Deadlock) == 0 {
				r.say("No circle has formed in this run: all traffic moves. Start the lesson again.")
				return nil
			}
			r.say(fmt.Sprintf("DEADLOCK: %d lanes wait for each other, and will move no packet again. No one is slow, no link is down, and nothing is lost. "+
				"The forwarding tables allow it: they have a circle of lanes (a cycle in the channel dependency graph).", len(d.Deadlock.Deadlock)))
			r.say("A subnet manager can make switches discard packets that wait too long (HOQLife). That ends a deadlock, but loses packets. In this fabric " +
				"they wait without limit.")
			return nil
		},
	}
}

func (x *deadlockLesson) breakCircle() step {
	return step{
		title: "Break the circle",
		text: "Cut one cable of the ring. A link that goes down discards the packets that wait for it, and the subnet manager finds other paths. Without a " +
			"circle of cables there is no circle of lanes.",
		run: func(ctx context.Context, r *Result) error {
			if _, err := x.f.ask(control.Request{Verb: control.VerbLinkDown, Args: []string{"switch-0:1"}}); err != nil {
				return err
			}
			n, err := x.f.arrived(ctx, standsStillOrAll)
			if err != nil {
				return err
			}
			d, err := x.f.ask(control.Request{Verb: control.VerbDeadlock})
			if err != nil {
				return err
			}
			r.show(n, d.Deadlock)
			r.say(fmt.Sprintf("%d of %d packets have arrived. Those that the cut link discarded are lost; a reliable connection would send them again.", n.arrived, n.all))
			return nil
		},
	}
}

func (x *deadlockLesson) otherRouting() step {
	return step{
		title: "Routing without a circle",
		text: "The same ring again, with two virtual lanes and a routing for rings: a packet changes to the second lane where it crosses one chosen cable. Buffers are per " +
			"lane, so no packet of the second lane waits for one of the first. The same load runs.",
		run: func(ctx context.Context, r *Result) (err error) {
			x.f.close()
			if x.f, err = x.newFabric(ctx, "lesson", routing.Torus, 2); err != nil {
				return err
			}
			if err = x.f.load(2); err != nil {
				return err
			}
			n, err := x.f.arrived(ctx, allArrived)
			if err != nil {
				return err
			}
			d, err := x.f.ask(control.Request{Verb: control.VerbDeadlock})
			if err != nil {
				return err
			}
			r.show(n, d.Deadlock)
			r.say("All packets arrive. Fat trees need no second lane: packets go up and then down, and never up again, so there is no circle at all.")
			r.say("Ethernet with priority flow control (PFC) has the same danger: a pause is a credit of zero.")
			return nil
		},
	}
}

// show shows how much of a load has arrived, and the lanes that wait.
func (r *Result) show(n progress, d *control.Deadlock) {
	r.figure("packets", fmt.Sprintf("%d of %d left their adapters, %d arrived", n.sent, n.all, n.arrived))
	r.figure("lanes that stand still", fmt.Sprint(len(d.Still)))
	tables := "no circle"
	if len(d.Cycle) > 0 {
		tables = fmt.Sprintf("a circle of %d lanes", len(d.Cycle))
	}
	r.figure("the tables allow", tables)
	r.Charts = append(r.Charts, n.chart("packets"))
	if len(d.Deadlock) > 0 {
		r.bad("in a deadlock", fmt.Sprintf("%d lanes", len(d.Deadlock)))
	}
	for i, c := range d.Deadlock {
		next := d.Deadlock[(i+1)%len(d.Deadlock)]
		r.Circle = append(r.Circle, Edge{lane(c), lane(next)})
	}
}

func lane(c control.Channel) string { return fmt.Sprintf("%s:%d lane %d", c.Node, c.Port, c.VL) }

// A fabric is a fabric of a lesson.
type fabric struct {
	*live.Fabric
	close func()
}

// newFabric runs a ring whose tables are of an algorithm.
func (t *tour) newFabric(ctx context.Context, name string, how routing.Algorithm, lanes int) (*fabric, error) {
	shape, err := topology.Generate(ring)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "softrdma-lesson-")
	if err != nil {
		return nil, err
	}
	f := new(fabric)
	f.Fabric, err = live.Start(live.Config{
		Name: name, Directory: dir, Fabric: shape, Port: port.Config{VLs: lanes}, Manager: &sm.Config{Algorithm: how}, Control: control.Answer,
	})
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	remove := process.AddFabric(name, f.Ask)
	closed := false
	f.close = func() {
		if !closed {
			closed = true
			remove()
			_ = f.Close()
			_ = os.RemoveAll(dir)
		}
	}
	t.atEnd(f.close)
	return f, f.until(ctx, func() (bool, error) {
		s, err := f.ask(control.Request{Verb: control.VerbStatus})
		if err != nil {
			return false, err
		}
		own := s.Status.Manager.Own
		return own != nil && own.Idle && own.Sweeps > 0 && s.Status.Links[control.LinkActive] > 0, nil
	})
}

// ask asks the fabric what softrdma fabric asks.
func (f *fabric) ask(q control.Request) (*control.Reply, error) {
	b, err := json.Marshal(&q)
	if err != nil {
		return nil, err
	}
	if b, err = f.Ask(b); err != nil {
		return nil, err
	}
	reply := new(control.Reply)
	return reply, json.Unmarshal(b, reply)
}

// load starts test traffic: from each adapter to the one some further on, or between two.
func (f *fabric) load(shift int, ends ...string) error {
	q := control.Request{Verb: control.VerbLoad, Args: ends, Load: &control.LoadRequest{Shift: shift, Size: loadSize, Packets: load}}
	if shift == 0 {
		q.Load.Packets = lessLoad
	}
	_, err := f.ask(q)
	return err
}

func (f *fabric) stopLoads() error {
	_, err := f.ask(control.Request{Verb: control.VerbLoad, Load: &control.LoadRequest{Stop: true}})
	return err
}

// A progress is how much of all loads has arrived.
type progress struct{ all, sent, arrived int }

func (n progress) chart(title string) Chart {
	return Chart{title, []Bar{
		{"to send", float64(n.all), fmt.Sprint(n.all)}, {"sent", float64(n.sent), fmt.Sprint(n.sent)}, {"arrived", float64(n.arrived), fmt.Sprint(n.arrived)},
	}}
}

const (
	look  = 10 * time.Millisecond  // between looks at a fabric
	still = 100 * time.Millisecond // of the fabric's clock: it then stands still, or has come to its end
)

func allArrived(n progress, _ time.Duration) bool      { return n.arrived == n.all }
func standsStill(n progress, since time.Duration) bool { return since >= still || n.arrived == n.all }
func standsStillOrAll(n progress, since time.Duration) bool {
	return n.arrived == n.all || since >= 3*still
}

// arrived waits until the loads have come as far as enough says, which is called with how long nothing has moved.
func (f *fabric) arrived(ctx context.Context, enough func(progress, time.Duration) bool) (n progress, err error) {
	var moved time.Duration // on the fabric's clock
	err = f.until(ctx, func() (bool, error) {
		r, err := f.ask(control.Request{Verb: control.VerbLoad})
		if err != nil {
			return false, err
		}
		var now progress
		for _, l := range r.Loads {
			now.all, now.sent, now.arrived = now.all+l.Packets, now.sent+l.Sent, now.arrived+l.Arrived
		}
		if now != n {
			n, moved = now, r.Now
		}
		return enough(n, r.Now-moved), nil
	})
	return n, err
}

// until waits until a condition is true.
func (f *fabric) until(ctx context.Context, is func() (bool, error)) error {
	for {
		if ok, err := is(); ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(look):
		}
	}
}
