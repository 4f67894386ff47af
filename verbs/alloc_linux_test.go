package verbs_test

import (
	"context"
	"testing"
	"time"

	"softrdma/verbs"
)

// Posting, progress, polling, and waiting for events with a cancellable context allocate
// nothing per request, over real sockets.
func TestRequestsAllocateNothing(t *testing.T) {
	for _, spin := range []time.Duration{-1, 0} { // each wait sleeps, or few do
		e := ends{a: "127.7.8.1", b: "127.7.8.2", qp: verbs.QPConfig{Type: verbs.RC}, spin: spin}
		a, b := e.pair(t)
		for name, w := range map[string]verbs.SendWR{
			"SEND":               {Op: verbs.OpSend, SGL: []verbs.SGE{a.mr.SGE(0, 64)}},
			"SEND of many":       {Op: verbs.OpSend, SGL: []verbs.SGE{a.mr.SGE(0, 32<<10)}},
			"WRITE":              {Op: verbs.OpWrite, SGL: []verbs.SGE{a.mr.SGE(0, 8<<10)}},
			"WRITE with data":    {Op: verbs.OpWriteImm, SGL: []verbs.SGE{a.mr.SGE(0, 64)}},
			"READ":               {Op: verbs.OpRead, SGL: []verbs.SGE{a.mr.SGE(0, 8<<10)}},
			"FETCH_ADD":          {Op: verbs.OpFetchAdd, SGL: []verbs.SGE{a.mr.SGE(0, 8)}, Add: 1},
			"COMPARE_SWAP":       {Op: verbs.OpCompareSwap, SGL: []verbs.SGE{a.mr.SGE(0, 8)}, Swap: 1},
			"WRITE of no memory": {Op: verbs.OpWrite},
		} {
			w.Flags, w.RemoteAddr, w.RKey = verbs.Signaled, b.mr.Addr(), b.mr.RKey()
			for _, wait := range []bool{false, true} {
				if n := allocations(t, a, b, w, wait); n != 0 {
					t.Errorf("%s, spin %v, waiting %v: %v allocations", name, spin, wait, n)
				}
			}
		}
		_, _ = a.dev.Close(), b.dev.Close()
	}
}

// allocations measures those of one request at both ends.
func allocations(t *testing.T, a, b *side, w verbs.SendWR, wait bool) float64 {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	list := []verbs.SendWR{w}
	recv := []verbs.RecvWR{{SGL: []verbs.SGE{b.mr.SGE(0, len(b.buf))}}}
	wcs := make([]verbs.WC, 4)
	want := 2 // completions
	if w.Op != verbs.OpSend && w.Op != verbs.OpWriteImm {
		want, recv = 1, nil
	}
	round := func() {
		if err := b.qp.PostRecv(recv...); err != nil {
			t.Fatal(err)
		}
		if err := a.qp.PostSend(list...); err != nil {
			t.Fatal(err)
		}
		for came := 0; came < want; {
			for _, s := range []*side{b, a} {
				if wait && (s == a || recv != nil) {
					if err := s.cq.Wait(ctx); err != nil {
						t.Fatal(err)
					}
				}
				n, err := s.cq.Poll(wcs)
				if err != nil || n > 0 && wcs[0].Status != verbs.Success {
					t.Fatalf("%v, %+v", err, wcs[0])
				}
				came += n
			}
		}
	}
	for range 20 {
		round()
	}
	return testing.AllocsPerRun(100, round)
}
