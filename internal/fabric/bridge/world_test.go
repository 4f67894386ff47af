package bridge

import (
	"testing"

	"softrdma/internal/fabric/dcb"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ethernet"
)

// A world is a switch whose neighbors are the test.
type world struct {
	t         *testing.T
	sw        *Switch
	pool      dcb.Pool
	now       dcb.Time
	due       []dcb.Time
	sent      []departure
	delivered int
	drops     []reason.Detail
}

// A departure is a frame that has left the switch.
type departure struct {
	at   dcb.Time
	port int
	f    dcb.Frame
}

func newWorld(t *testing.T, c Config) *world {
	w := &world{t: t, due: make([]dcb.Time, len(c.Ports))}
	for i := range w.due {
		w.due[i] = dcb.Never
	}
	if c.Address == 0 {
		c.Address = router
	}
	w.sw = New(c, w, &w.pool)
	for i := 1; i <= w.sw.Ports(); i++ {
		w.sw.SetLink(0, i, true)
	}
	return w
}

const router dcb.Address = 0x0200000000ff

func host(i int) dcb.Address { return 0x020000000000 | dcb.Address(i) }

// ports are n ports with the same link.
func ports(n int, link *dcb.PortConfig) []PortConfig {
	all := make([]PortConfig, n+1)
	for i := range all {
		all[i].Link = link
	}
	return all
}

func plain() *dcb.PortConfig { return &dcb.PortConfig{Speed: 100 * dcb.Gbit} }

func pfc(priorities uint8) *dcb.PortConfig {
	return &dcb.PortConfig{Speed: 100 * dcb.Gbit, Pause: dcb.ByClass, Lossless: priorities}
}

func (w *world) Transmit(now dcb.Time, port int, f *dcb.Frame) {
	w.sent = append(w.sent, departure{now, port, *f})
	w.pool.Put(f)
}

func (w *world) Schedule(port int, at dcb.Time) { w.due[port] = at }

func (w *world) Deliver(_ dcb.Time, _ int, f *dcb.Frame) bool {
	if !f.Dst.Reserved() || f.Dst&0xf != 0xe {
		return false
	}
	w.delivered++
	w.pool.Put(f)
	return true
}

func (w *world) Dropped(_ dcb.Time, _ int, _ *dcb.Frame, d reason.Detail) {
	w.drops = append(w.drops, d)
}

// run lets everything happen until a time.
func (w *world) run(until dcb.Time) {
	for {
		port := 0
		for i, at := range w.due {
			if i > 0 && at <= until && (port == 0 || at < w.due[port]) {
				port = i
			}
		}
		if port == 0 {
			w.now = until
			return
		}
		w.now = max(w.now, w.due[port])
		w.sw.Run(w.now, port)
	}
}

// receive gives the switch a frame now.
func (w *world) receive(port int, change func(f *dcb.Frame)) {
	f := w.pool.Frame()
	f.Src, f.Dst, f.Len = host(port), dcb.Broadcast, 1000
	change(f)
	f.At = w.now
	f.Tail = w.now + dcb.Time(f.Len)*w.sw.Port(port).PerByte()
	w.sw.Receive(w.now, port, f)
}

// learn makes the switch know host i at port i.
func (w *world) learn() {
	for i := 1; i <= w.sw.Ports(); i++ {
		w.receive(i, func(f *dcb.Frame) { f.Dst = host(i) })
	}
	w.run(w.now + dcb.Millisecond)
	w.sent, w.drops = nil, nil
}

func (w *world) pause(port int, quanta uint16, priorities uint8) {
	w.receive(port, func(f *dcb.Frame) {
		f.Op, f.Enable, f.Len = ethernet.OpPFC, priorities, dcb.MinFrame
		for i := range f.Quanta {
			f.Quanta[i] = quanta
		}
	})
}

// reasons returns the reasons of all drops.
func (w *world) reasons() (all []reason.Reason) {
	for _, d := range w.drops {
		all = append(all, d.Reason)
	}
	return all
}

// to returns the ports by which data left.
func (w *world) to() (all []int) {
	for _, d := range w.sent {
		if d.f.Op == 0 {
			all = append(all, d.port)
		}
	}
	return all
}
