package adapter_test

import (
	"net/netip"
	"testing"
	"time"

	"softrdma/internal/link/hostmem"
	"softrdma/internal/memory"
	"softrdma/internal/queue"
	"softrdma/internal/simnet/rig"
)

// noFar is a peer in the same goroutine, which polls and offers no memory.
type noFar struct{ hostmem.Far }

func (noFar) Ring(int) {}

// joined connects two cabled ends through memory.
func joined(b *testing.B, depth int) [2]*cabled {
	x, y := &cable{local: netip.MustParseAddrPort("10.0.0.1:4791")}, &cable{local: netip.MustParseAddrPort("10.0.0.2:4791")}
	x.peer, y.peer = y, x
	ends := [2]*cabled{newCabled(b, x, depth), newCabled(b, y, depth)}
	var out, in [2]*hostmem.Area
	for i := range ends {
		mem := make([]byte, hostmem.AreaSize(1, 1))
		out[i] = hostmem.NewArea(mem, 1, 1)
		var err error
		in[1-i], err = hostmem.OpenArea(mem, 1, 1)
		must(b, err)
	}
	for i, e := range ends {
		e.dev.AttachHost(&hostmem.Channel{
			Peer: []*cable{y, x}[i].local, Out: out[i], In: in[i], Lanes: 1, Far: noFar{},
		})
	}
	must(b, rig.Connect(ends[0].qp, ends[1].qp, rig.Options{}))
	return ends
}

// BenchmarkWrite8ThroughMemory measures the time of both ends for WRITEs of 8 bytes in lists of
// 32, of which the last is signaled, as `softrdma perf write bw -s 8` posts them.
func BenchmarkWrite8ThroughMemory(b *testing.B) {
	ends := joined(b, 127)
	const batch, lists = 32, 3
	s := rig.Send{Op: queue.Write, Addr: 0x10000, RKey: ends[1].mr.Key, SGEs: []memory.SGE{{Addr: 0x10000, Length: 8, LKey: ends[0].mr.Key}}}
	list := make([]rig.Send, batch)
	for i := range list {
		list[i] = s
	}
	list[batch-1].Flags = queue.Signaled
	var got [8]queue.CQE
	var post, respond, complete time.Duration
	posted, done := 0, 0
	b.ReportAllocs()
	for done < b.N {
		began := time.Now()
		for posted-done < lists*batch {
			if err := rig.PostSend(ends[0].qp, list...); err != nil {
				b.Fatal(err)
			}
			posted += batch
		}
		sent := time.Now()
		ends[1].cq.Progress(true)
		executed := time.Now()
		ends[0].cq.Progress(true)
		for _, c := range got[:rig.Poll(ends[0].cq, got[:])] {
			if c.Status != queue.Success {
				b.Fatal(c)
			}
			done += batch
		}
		post, respond, complete = post+sent.Sub(began), respond+executed.Sub(sent), complete+time.Since(executed)
	}
	for name, d := range map[string]time.Duration{"post": post, "respond": respond, "complete": complete} {
		b.ReportMetric(float64(d.Nanoseconds())/float64(posted), name+"-ns/op")
	}
}

// BenchmarkRoundThroughMemory measures the time of both ends for one request at a time: a WRITE of
// 8 bytes with its acknowledge, and a fetch-and-add.
func BenchmarkRoundThroughMemory(b *testing.B) {
	for _, op := range []queue.Op{queue.Write, queue.FetchAdd} {
		b.Run(op.String(), func(b *testing.B) {
			ends := joined(b, 127)
			s := rig.Send{
				Op: op, Addr: 0x10000, RKey: ends[1].mr.Key, Flags: queue.Signaled, CompareAdd: 1,
				SGEs: []memory.SGE{{Addr: 0x10000, Length: 8, LKey: ends[0].mr.Key}},
			}
			var got [8]queue.CQE
			b.ReportAllocs()
			for range b.N {
				if err := rig.PostSend(ends[0].qp, s); err != nil {
					b.Fatal(err)
				}
				for rig.Poll(ends[0].cq, got[:]) == 0 {
					ends[1].cq.Progress(true)
					ends[0].cq.Progress(true)
				}
				if got[0].Status != queue.Success {
					b.Fatal(got[0])
				}
			}
		})
	}
}
