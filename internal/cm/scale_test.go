package cm

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"runtime"
	"testing"
	"time"
	"unsafe"

	"softrdma/internal/qp"
	"softrdma/internal/wire/mad"
)

// duo is two managers connected without a network or a clock: each receives at once what the other
// sends.
type duo struct {
	now  time.Duration
	a, b *Manager
	out  Datagram
	todo [2][]Event
}

func newDuo(t testing.TB) *duo {
	d := &duo{}
	r := rand.New(rand.NewPCG(3, 4))
	for i, m := range []**Manager{&d.a, &d.b} {
		*m = New(Config{GUID: uint64(i) + 1, Local: netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, 2, byte(i + 1)}), 4791),
			MTU: 1024, AckDelay: 15, Random: r.Uint32})
		(*m).SetHandler(func(e *Event) { d.todo[i] = append(d.todo[i], Event{Kind: e.Kind, Conn: e.Conn}) })
	}
	if _, err := d.b.Listen(0, service); err != nil {
		t.Fatal(err)
	}
	return d
}

// pump delivers datagrams and lets users react until nothing is left to do.
func (d *duo) pump(t testing.TB) {
	for again := true; again; {
		again = false
		for i, m := range []*Manager{d.a, d.b} {
			other := d.b
			if i == 1 {
				other = d.a
			}
			for m.Next(d.now, &d.out) {
				again = true
				other.Receive(d.now, back(m.config.Local, 0), d.out.MAD[:])
			}
			for _, e := range d.todo[i] {
				again = true
				var err error
				switch e.Kind {
				case EventReqReceived:
					err = e.Conn.Accept(d.now, &AcceptParams{QPN: e.Conn.RemoteQPN()})
				case EventRepReceived:
					err = e.Conn.Ready(d.now, nil)
				case EventDreqReceived:
					err = e.Conn.DisconnectReply(d.now, nil)
					e.Conn.Destroy(d.now)
				case EventDrepReceived:
					e.Conn.Destroy(d.now)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			d.todo[i] = d.todo[i][:0]
		}
	}
}

func (d *duo) connect(t testing.TB, qpn uint32) *Conn {
	c, err := d.a.Connect(d.now, &ConnectParams{Service: service, Path: qp.Path{Dst: d.b.config.Local}, QPN: qpn})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// One manager holds them in little memory and leaks nothing.
func TestTenThousandConnectionsComeAndGo(t *testing.T) {
	const n = 10_000
	if size := unsafe.Sizeof(Conn{}); size > 384 {
		t.Errorf("a connection takes %d bytes", size)
	}
	d := newDuo(t)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	all := make([]*Conn, n)
	for i := range all {
		all[i] = d.connect(t, uint32(i))
	}
	d.pump(t)
	runtime.GC()
	runtime.ReadMemStats(&after)
	for _, c := range all {
		if c.State() != Established {
			t.Fatalf("a connection is in state %v", c.State())
		}
	}
	if x, y := d.a.Count(), d.b.Count(); x != (Count{Conns: n}) || y != (Count{Conns: n, Listeners: 1}) {
		t.Fatalf("the managers hold %+v and %+v", x, y)
	}
	per := int64(after.HeapAlloc-before.HeapAlloc) / (2 * n)
	t.Logf("%d bytes of heap for each end of a connection", per)
	if per > 1500 {
		t.Errorf("each end of a connection takes %d bytes", per)
	}
	for _, c := range all {
		if err := c.Disconnect(d.now, nil); err != nil {
			t.Fatal(err)
		}
	}
	d.pump(t)
	if x, y := d.a.Count(), d.b.Count(); x.Conns != 0 || x.Detached != n || y.Conns != 0 || y.Detached != n {
		t.Errorf("in the time wait the managers hold %+v and %+v", x, y)
	}
	d.now += 10 * time.Second
	d.a.Expire(d.now)
	d.b.Expire(d.now)
	d.pump(t)
	if x, y := d.a.Count(), d.b.Count(); x != (Count{}) || y != (Count{Listeners: 1}) {
		t.Errorf("at the end the managers hold %+v and %+v", x, y)
	}
	if len(d.a.remotes)+len(d.a.qpns)+len(d.b.remotes)+len(d.b.qpns)+cap(d.a.queue) > keptQueue {
		t.Error("tables stay")
	}
}

// BenchmarkSetUpAndTearDown measures the life of a connection on two managers that hold a number of
// other connections.
func BenchmarkSetUpAndTearDown(b *testing.B) {
	for _, standing := range []int{0, 10_000} {
		b.Run(fmt.Sprintf("beside=%d", standing), func(b *testing.B) {
			d := newDuo(b)
			for i := range standing {
				d.connect(b, uint32(1<<23+i))
			}
			d.pump(b)
			b.ReportAllocs()
			b.ResetTimer()
			for i := range b.N {
				c := d.connect(b, uint32(i&0x7fffff))
				d.pump(b)
				if err := c.Disconnect(d.now, nil); err != nil {
					b.Fatal(err)
				}
				d.pump(b)
				d.now += 100 * time.Microsecond // so that the time wait ends
				d.a.Expire(d.now)
				d.b.Expire(d.now)
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "connections/s")
		})
	}
}

// BenchmarkRefusal measures a datagram that belongs to no connection.
func BenchmarkRefusal(b *testing.B) {
	for _, standing := range []int{0, 10_000} {
		b.Run(fmt.Sprintf("beside=%d", standing), func(b *testing.B) {
			d := newDuo(b)
			for i := range standing {
				d.connect(b, uint32(i))
			}
			d.pump(b)
			msg := craft(mad.AttrRTU, &mad.RTU{LocalID: 1, RemoteID: 2})
			b.ReportAllocs()
			for b.Loop() {
				d.b.Receive(d.now, back(d.a.config.Local, 0), msg)
			}
		})
	}
}
