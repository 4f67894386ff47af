package hosts

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"

	"softrdma/internal/congestion"
	"softrdma/internal/fabric/bridge"
	"softrdma/internal/fabric/dcb"
	"softrdma/internal/fabric/lan"
	"softrdma/internal/fabric/station"
	"softrdma/internal/reason"
	"softrdma/internal/topology"
)

// A world is hosts whose connections send messages.
type world struct {
	*Hosts
	t        testing.TB
	mutex    sync.Mutex
	sent     int
	received int
	log      []string // what happened when
	alarm    func(now dcb.Time, timer int)
}

func newWorld(t testing.TB, text string, c lan.Config) *world {
	w := &world{t: t}
	var err error
	if c.Fabric, err = topology.Generate(text); err != nil {
		t.Fatal(err)
	}
	if c.Link.Port.Speed == 0 {
		c.Link.Port.Speed = 100 * dcb.Gbit
	}
	c.Host = station.Config{Queue: 1}
	if w.Hosts, err = New(Config{Network: c, Handler: w}); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) Sent(now dcb.Time, c *Conn, _ uint64) {
	c.Close(now)
	w.note(&w.sent, "%d: %d sent to %d", now, c.From(), c.To())
}
func (w *world) Received(now dcb.Time, c *Conn, _ uint32) {
	w.note(&w.received, "%d: %d received from %d", now, c.To(), c.From())
}

// note counts something that happened, in whatever part of the network.
func (w *world) note(count *int, format string, args ...any) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	*count++
	w.log = append(w.log, fmt.Sprintf(format, args...))
}
func (w *world) Failed(now dcb.Time, c *Conn, d reason.Detail) {
	w.t.Errorf("at %v: connection from %d to %d failed: %v", now, c.From(), c.To(), d)
}
func (w *world) Alarm(now dcb.Time, timer int) { w.alarm(now, timer) }

func TestMessageArrives(t *testing.T) {
	w := newWorld(t, "star:2", lan.Config{Seed: 1})
	n := w.Nodes()
	w.Connect(0, n[0], n[1], 1, &Sender{Control: congestion.None}).Post(0, 7, 1<<20)
	w.Run(10 * dcb.Millisecond)
	if w.sent != 1 || w.received != 1 || w.Traffic().Received != 1<<20 {
		t.Errorf("%d sent, %d received, %+v", w.sent, w.received, w.Traffic())
	}
}

// randomNetwork makes any network, with its topology.
func randomNetwork(seed uint64, r *rand.Rand) (text string, c lan.Config) {
	c = lan.Config{Seed: seed, Switch: bridge.Config{Balance: bridge.Balance(r.IntN(3))}}
	c.Switch.Telemetry, c.Switch.Buffer = true, bridge.BufferConfig{Size: 20<<10 + r.IntN(200<<10)}
	c.Link.Cable = dcb.Time(1+r.IntN(2000)) * dcb.Nanosecond
	c.Link.Port.Speed = dcb.Gbit * dcb.Speed(1+r.IntN(200))
	if r.IntN(2) == 0 {
		c.Link.Port.Pause, c.Link.Port.Lossless = dcb.ByClass, 1<<3
	}
	c.Switch.Marking[3] = bridge.Marking{Min: r.IntN(50 << 10), Max: 50<<10 + r.IntN(50<<10), Most: r.Float64()}
	return []string{"star:5", "fat-tree:k=4", "mesh:2x2,hosts=2", "ring:4"}[r.IntN(4)], c
}

// post sends messages between random hosts.
func (w *world) post(r *rand.Rand, messages int) {
	nodes := w.Nodes()
	for i := range messages {
		from := r.IntN(len(nodes))
		to := (from + 1 + r.IntN(len(nodes)-1)) % len(nodes)
		s := Sender{
			Control: congestion.Kind(r.IntN(int(congestion.HPCC) + 1)), GoBackN: r.IntN(2) == 0, Priority: 3,
			MTU: 256 << r.IntN(3), Timeout: uint8(8 + r.IntN(4)),
		}
		w.Connect(0, nodes[from], nodes[to], 1, &s).Post(0, uint64(i), uint32(r.IntN(200<<10)))
	}
}

// Whatever the network loses, delays and reorders, each message arrives once, and nothing is left.
func TestMessagesArriveOverRandomNetworks(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 1))
		text, c := randomNetwork(seed, r)
		w := newWorld(t, text, c)
		nodes := w.Nodes()
		const messages = 12
		w.post(r, messages)
		w.Run(20 * dcb.Second)
		if w.sent != messages || w.received != messages {
			t.Errorf("seed %d: %d of %d sent, %d received", seed, w.sent, messages, w.received)
		}
		if n := w.Network().InUse(); n != 0 {
			t.Errorf("seed %d: %d frames are left", seed, n)
		}
		spare := 0
		for _, k := range nodes {
			spare += len(w.hosts[k].spare)
		}
		if spare != 2*messages {
			t.Errorf("seed %d: %d timers of %d are free", seed, spare, 2*messages)
		}
	}
}

// However many parts a network has, and however many goroutines work on them, the same happens at the
// same times.
func TestPartsAndWorkersChangeNothing(t *testing.T) {
	for seed := range uint64(8) {
		var first []string
		for _, n := range []struct{ parts, workers int }{{1, 1}, {2, 2}, {4, 3}} {
			r := rand.New(rand.NewPCG(seed, 1))
			text, c := randomNetwork(seed, r)
			c.Parts, c.Workers, c.Grain = n.parts, n.workers, 1
			w := newWorld(t, text, c)
			w.post(r, 12)
			w.Run(dcb.Second)
			slices.Sort(w.log)
			w.log = append(w.log, fmt.Sprint(w.Network().Events(), w.Traffic(), w.Drops(), w.Reasons()))
			if first == nil {
				first = w.log
			}
			if !slices.Equal(w.log, first) {
				t.Errorf("seed %d, %d parts: %q, with one %q", seed, n.parts, w.log, first)
			}
		}
	}
}

// maxIdle is the most bytes that an idle host may take, with its share of the switches.
const maxIdle = 8 << 10

func TestIdleHostTakesLittleMemory(t *testing.T) {
	fabric, err := topology.Generate("fat-tree:k=16")
	if err != nil {
		t.Fatal(err)
	}
	c := lan.Config{Fabric: fabric, Parts: 32}
	c.Link.Port = dcb.PortConfig{Speed: 100 * dcb.Gbit, Pause: dcb.ByClass, Lossless: 1 << 3}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	w, err := New(Config{Network: c})
	if err != nil {
		t.Fatal(err)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	each := int(after.HeapAlloc-before.HeapAlloc) / len(w.Nodes())
	t.Logf("%d bytes for each of %d hosts, with their share of the switches", each, len(w.Nodes()))
	if each > maxIdle {
		t.Errorf("an idle host takes %d bytes, expected at most %d", each, maxIdle)
	}
	runtime.KeepAlive(w)
}
