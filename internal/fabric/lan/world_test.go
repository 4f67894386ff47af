package lan

import (
	"cmp"
	"testing"

	"softrdma/internal/fabric/dcb"
	"softrdma/internal/reason"
	"softrdma/internal/topology"
	"softrdma/internal/wire/ethernet"
)

// A world is a network whose hosts send flows, and a record of what became of each frame.
type world struct {
	t     testing.TB
	net   *Network
	flows map[int][]*flow // by sender
	all   []*flow
	drops map[reason.Reason]int
	where map[reason.Reason]topology.End // the last such drop
	stall map[int]bool                   // hosts that take nothing
}

// A flow is frames from a host to another, sent as fast as the port takes them.
type flow struct {
	from, to  int
	priority  uint8
	port      uint16 // UDP source port; one that follows from the hosts if 0
	length    int32
	frames    int // to send
	sent      int
	delivered int
	dropped   int
	bytes     int
	last      int // number of the last frame that arrived
	disorder  int // frames that another one overtook
	done      dcb.Time
	fate      []byte // of each frame: 0 under way, 1 delivered, 2 dropped
	ecn       uint8
	marked    int
}

func newWorld(t testing.TB, c Config) *world {
	w := &world{t: t, flows: map[int][]*flow{}, drops: map[reason.Reason]int{}, where: map[reason.Reason]topology.End{}, stall: map[int]bool{}}
	c.Deliver, c.Dropped, c.Writable = w.deliver, w.dropped, w.writable
	w.net = New(c)
	return w
}

func generate(t testing.TB, text string) *topology.Fabric {
	t.Helper()
	f, err := topology.Generate(text)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// hosts returns the nodes that are hosts.
func (w *world) hosts() (all []int) {
	for i := range w.net.nodes {
		if w.net.nodes[i].host != nil {
			all = append(all, i)
		}
	}
	return all
}

func (w *world) add(f flow) *flow {
	if f.length == 0 {
		f.length = dcb.DefaultMTU
	}
	k := &f
	k.last = -1
	k.fate = make([]byte, k.frames)
	w.flows[k.from] = append(w.flows[k.from], k)
	w.all = append(w.all, k)
	w.feed(k)
	return k
}

// feed sends frames of a flow while the port takes them.
func (w *world) feed(k *flow) {
	host := w.net.Host(k.from)
	for k.sent < k.frames && host.Room(k.priority) {
		f := w.net.Pool().Frame()
		w.net.Address(f, k.from, k.to, cmp.Or(k.port, uint16(k.from*31+k.to)))
		f.Len, f.DSCP, f.ECN, f.Priority = k.length, k.priority<<3, k.ecn, k.priority
		f.Cookie = uint64(w.number(k))<<32 | uint64(k.sent)
		k.sent++
		if !w.net.Send(w.net.Now(), k.from, f) {
			w.t.Fatal("the port refuses a frame for which it has room")
		}
	}
}

func (w *world) number(k *flow) int {
	for i, o := range w.all {
		if o == k {
			return i
		}
	}
	return -1
}

func (w *world) writable(_ dcb.Time, node int) {
	for _, k := range w.flows[node] {
		w.feed(k)
	}
}

func (w *world) end(f *dcb.Frame, fate byte) *flow {
	k := w.all[f.Cookie>>32]
	i := int(uint32(f.Cookie))
	if k.fate[i] != 0 {
		w.t.Fatalf("frame %d of %d to %d ended twice", i, k.from, k.to)
	}
	k.fate[i] = fate
	return k
}

func (w *world) deliver(now dcb.Time, at topology.End, f *dcb.Frame) bool {
	if w.stall[at.Node] || w.net.Host(at.Node) == nil {
		return false
	}
	k := w.end(f, 1)
	if at.Node != k.to {
		w.t.Fatalf("a frame from %d to %d arrived at %d", k.from, k.to, at.Node)
	}
	if i := int(uint32(f.Cookie)); i > k.last {
		k.last = i
	} else {
		k.disorder++
	}
	if f.ECN == dcb.CE {
		k.marked++
	}
	k.delivered++
	k.bytes += int(f.Len)
	k.done = now
	w.net.PoolOf(at.Node).Put(f)
	return true
}

func (w *world) dropped(_ dcb.Time, at topology.End, f *dcb.Frame, d reason.Detail) {
	w.drops[d.Reason]++
	w.where[d.Reason] = at
	if f.Dst.Reserved() {
		return
	}
	w.end(f, 2).dropped++
}

// finish runs until no event is left and checks that each frame had one end, that counters have
// each drop, and that nothing is left behind.
func (w *world) finish() {
	w.t.Helper()
	w.net.Run(10 * dcb.Second)
	for _, k := range w.all {
		if k.sent != k.frames || k.delivered+k.dropped != k.sent {
			w.t.Errorf("%d to %d: %d of %d sent, %d delivered, %d dropped", k.from, k.to, k.sent, k.frames, k.delivered, k.dropped)
		}
	}
	w.balance()
	if n := w.net.InUse(); n != 0 {
		w.t.Errorf("%d frames are left: %+v", n, w.net.Standstill(0))
	}
}

// balance compares drops with counters, and looks for room that leaked.
func (w *world) balance() {
	w.t.Helper()
	counted := map[reason.Reason]int{}
	for i := range w.net.nodes {
		k := &w.net.nodes[i]
		for r := reason.EthernetLength; r <= reason.EthernetForeign; r++ {
			if k.host != nil {
				counted[r] += int(k.host.Dropped(r))
				continue
			}
			for p := 1; p <= k.sw.Ports(); p++ {
				counted[r] += int(k.sw.Port(p).Dropped(r))
			}
		}
		if k.sw == nil {
			continue
		}
		for p := 1; p <= k.sw.Ports(); p++ {
			counted[reason.EthernetLinkDown] += int(w.net.Lost(topology.End{Node: i, Port: p}))
		}
		if b := k.sw.Buffer(); w.net.InUse() == 0 && b.Used != 0 {
			w.t.Errorf("switch %d: %d bytes of its buffer leaked", i, b.Used)
		}
	}
	for i := range w.net.nodes {
		if w.net.nodes[i].host != nil {
			counted[reason.EthernetLinkDown] += int(w.net.Lost(topology.End{Node: i, Port: 1}))
		}
	}
	for r, n := range w.drops {
		if counted[r] != n {
			w.t.Errorf("%v: %d drops, %d counted", r, n, counted[r])
		}
	}
}

// lossless is a link of 100 Gbit/s with PFC on priority 3.
func lossless() Link {
	return Link{Port: dcb.PortConfig{Speed: 100 * dcb.Gbit, Pause: dcb.ByClass, Lossless: 1 << 3,
		Selection: ethernet.ETS{Class: [8]uint8{0, 1, 2, 3, 4, 5, 6, 7}, Percent: [8]uint8{20, 0, 0, 80},
			Algorithm: [8]ethernet.Selection{0: ethernet.Enhanced, 3: ethernet.Enhanced}}}}
}
