package trunk

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"
	"time"

	"softrdma/internal/eventqueue"
	"softrdma/internal/management/hardware"
	"softrdma/internal/reason"
	"softrdma/internal/wire/mad/smp"
)

var supported = hardware.Link{Width: smp.Width4x, Speed: smp.SpeedQDR, ExtSpeed: smp.ExtSpeedEDR}

// A jack is a port in a test. Its frames have the number of the link and their own, from 0 on.
type jack struct {
	w        *world
	trunk    *Trunk
	state    PortState
	changed  bool
	disabled bool
	out, in  uint32 // frames on the present link
	arrived  int
	nodes    []uint64
	refuse   reason.Detail
	ends     []reason.Detail
	fuzzed   bool // frames are any bytes
}

func (j *jack) Nodes(_ *Peer, guids []uint64) reason.Detail {
	j.nodes = guids
	return j.refuse
}

func (j *jack) Connect(_ time.Duration, l hardware.Link) {
	if l != supported && !j.fuzzed {
		j.w.t.Errorf("link %+v", l)
	}
	if !j.state.Polls {
		return
	}
	j.state.Polls, j.state.Up, j.changed = false, true, true
	j.out, j.in = 0, 0
}

func (j *jack) Disconnect(time.Duration) { j.down() }

func (j *jack) down() {
	j.state.Up, j.state.Polls, j.changed = false, !j.disabled, true
}

func (j *jack) Frame(_ time.Duration, f []byte) {
	if j.fuzzed {
		return
	}
	link, number := binary.BigEndian.Uint32(f), binary.BigEndian.Uint32(f[4:])
	if link != j.trunk.session.epoch || number != j.in {
		j.w.t.Errorf("frame %d of link %d, expected %d of %d", number, link, j.in, j.trunk.session.epoch)
	}
	for _, b := range f[8:] {
		if b != byte(number) {
			j.w.t.Fatal("wrong content")
		}
	}
	j.in++
	j.arrived++
}

func (j *jack) Ended(d reason.Detail) { j.ends = append(j.ends, d) }

// send sends a frame of n bytes.
func (j *jack) send(n int) {
	if !j.state.Up || j.changed {
		return
	}
	f := make([]byte, n)
	for i := range f {
		f[i] = byte(j.out)
	}
	f[0], f[1] = 0, 0
	binary.BigEndian.PutUint32(f, j.trunk.session.epoch)
	binary.BigEndian.PutUint32(f[4:], j.out)
	if d := j.trunk.Send(j.w.now, f); d.Reason != reason.None {
		j.w.t.Errorf("refused: %v", d)
	}
	j.out++
}

// A world is two ends of a trunk and what is between them.
type world struct {
	t                      *testing.T
	now                    time.Duration
	random                 *rand.Rand
	jacks                  [2]*jack
	packets                eventqueue.Queue[flying]
	loss, copies, reorders float64
	cut                    bool
	sent                   int
	drops                  map[reason.Reason]int
}

type flying struct {
	to     int
	packet []byte
}

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{t: t, random: rand.New(rand.NewPCG(seed, 0)), drops: make(map[reason.Reason]int)}
	for i := range w.jacks {
		w.start(i)
	}
	return w
}

// start starts the process of an end, which forgets everything.
func (w *world) start(i int) {
	j := &jack{w: w, state: PortState{Polls: true, Width: smp.Width4x, Speed: smp.SpeedQDR, ExtSpeed: smp.ExtSpeedEDR}, changed: true}
	guids := make([]uint64, w.random.IntN(2*guidsInMessage+1))
	for k := range guids {
		guids[k] = uint64(i)<<32 | uint64(k)
	}
	j.trunk = New(w.now, Config{Self: Peer{Process: uint64(i + 1), Fabric: "fab", Port: "switch-0:1"}, GUIDs: guids, Secret: []byte("x"),
		Supported: supported, Random: w.random.Uint64, Port: j})
	w.jacks[i] = j
}

// run lets time pass.
func (w *world) run(d time.Duration) {
	for end := w.now + d; ; {
		w.flush()
		next := min(w.jacks[0].trunk.Deadline(), w.jacks[1].trunk.Deadline())
		if at, ok := w.packets.Next(); ok {
			next = min(next, at)
		}
		if next > end {
			w.now = end
			return
		}
		w.now = max(w.now, next)
		for {
			f, _, ok := w.packets.Pop(w.now)
			if !ok {
				break
			}
			if d := w.jacks[f.to].trunk.Receive(w.now, f.packet); d.Reason != reason.None {
				w.drops[d.Reason]++
			}
			w.flush()
		}
	}
}

// flush tells trunks of their ports and sends their packets.
func (w *world) flush() {
	for i, j := range w.jacks {
		for j.changed {
			j.changed = false
			j.trunk.PortChanged(w.now, j.state)
		}
		for {
			b := j.trunk.Next(w.now)
			if b == nil {
				break
			}
			if len(b) > MaxPacket {
				w.t.Fatalf("a packet of %d bytes", len(b))
			}
			w.sent++
			for range 2 {
				if !w.cut && w.random.Float64() >= w.loss {
					delay := 50 * time.Microsecond
					if w.random.Float64() < w.reorders {
						delay += time.Duration(w.random.IntN(int(2 * time.Millisecond)))
					}
					w.packets.Push(w.now+delay, flying{1 - i, append([]byte(nil), b...)})
				}
				if w.random.Float64() >= w.copies {
					break
				}
			}
			for j.changed {
				j.changed = false
				j.trunk.PortChanged(w.now, j.state)
			}
		}
	}
}

// up reports whether both ports are connected by the same link.
func (w *world) up() bool {
	a, b := w.jacks[0], w.jacks[1]
	return a.state.Up && b.state.Up && a.trunk.session.peer == b.trunk.own && b.trunk.session.peer == a.trunk.own &&
		a.trunk.session.epoch == b.trunk.session.epoch
}
