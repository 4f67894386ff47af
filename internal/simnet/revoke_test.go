package simnet_test

import (
	"bytes"
	"net/netip"
	"testing"

	"softrdma/internal/adapter"
	"softrdma/internal/memory"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/simnet"
	"softrdma/internal/simnet/rig"
)

// A fetcher is a device that READs from an owner on the same host. The owner's responses
// reference its memory, which both have mapped.
type fetcher struct {
	hosts [2]*rig.Host // fetcher, owner
	cqs   [2]*adapter.CQ
	qps   [2]*adapter.QP
	bufs  [2][]byte
	mrs   [2]*memory.Region
	other *adapter.QP // of the owner, on another lane than qps[1]; not connected
}

const fetched = 128 << 10

func newFetcher(t *testing.T) *fetcher {
	t.Helper()
	f := &fetcher{}
	n := simnet.New(1)
	for i := range f.hosts {
		h, err := rig.OpenLanes(n, netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(i + 1)}), 4791), simnet.LinkConfig{}, adapter.Config{}, 1+i)
		if err != nil {
			t.Fatal(err)
		}
		f.hosts[i] = h
		if f.cqs[i], err = h.Dev.CreateCQ(100, nil); err != nil {
			t.Fatal(err)
		}
		f.qps[i], err = h.PD.CreateQP(&adapter.QPConfig{
			Type: qp.RC, SendCQ: f.cqs[i], RecvCQ: f.cqs[i], SendDepth: 64, SendSGE: 4, RecvDepth: 64, RecvSGE: 4,
		})
		if err != nil {
			t.Fatal(err)
		}
		f.bufs[i] = bytes.Repeat([]byte{byte(i)}, fetched)
		if f.mrs[i], err = h.PD.RegisterSegment(f.bufs[i], 0, rig.AllAccess|qp.LocalWrite|qp.MWBind, rig.Segment(f.bufs[i])); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := rig.Join(f.hosts[0], f.hosts[1], rig.BondConfig{Offer: true}); err != nil {
		t.Fatal(err)
	}
	if err := rig.Connect(f.qps[0], f.qps[1], rig.Options{MTU: 4096}); err != nil {
		t.Fatal(err)
	}
	f.other = f.onOtherLane(t)
	return f
}

// onOtherLane makes a queue pair of the owner that may bind windows.
func (f *fetcher) onOtherLane(t *testing.T) *adapter.QP {
	t.Helper()
	var pair [2]*adapter.QP
	for i := range pair {
		for pair[i] == nil || pair[i].QPN%2 == f.qps[1].QPN%2 {
			var err error
			pair[i], err = f.hosts[1].PD.CreateQP(&adapter.QPConfig{
				Type: qp.RC, SendCQ: f.cqs[1], RecvCQ: f.cqs[1], SendDepth: 4, SendSGE: 1, RecvDepth: 4, RecvSGE: 1,
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := rig.Connect(pair[0], pair[1], rig.Options{}); err != nil {
		t.Fatal(err)
	}
	return pair[0]
}

// post posts a request on one end, and drives only that end.
func (f *fetcher) post(t *testing.T, i int, s rig.Send) {
	t.Helper()
	s.Flags |= queue.Signaled
	if err := rig.PostSend(f.qps[i], s); err != nil {
		t.Fatal(err)
	}
	f.hosts[i].Dev.Progress()
}

// polled returns the completions of one end.
func (f *fetcher) polled(i int) []queue.CQE {
	list := make([]queue.CQE, 10)
	return list[:rig.Poll(f.cqs[i], list)]
}

// bind binds a window of the owner to its region and returns the window's key.
func (f *fetcher) bind(t *testing.T, q *adapter.QP, key uint32) uint32 {
	t.Helper()
	// Posting drives the queue pair's lane, and no other.
	err := rig.PostSend(q, rig.Send{Op: queue.BindMW, Flags: queue.Signaled, MW: queue.MW{
		Addr: 0, Length: fetched, MRLKey: f.mrs[1].Key, MWRKey: key, RKey: key ^ 1, Access: uint32(qp.RemoteRead),
	}})
	if err != nil {
		t.Fatal(err)
	}
	if got := f.polled(1); len(got) != 1 || got[0].Status != queue.Success {
		t.Fatalf("bind: %+v", got)
	}
	return key ^ 1
}

// Memory is not read through a reference once its key is invalid. A READ whose responses were
// revoked ends as on a network, where the responder refuses the key.
func TestReferencesEndWithTheirKey(t *testing.T) {
	for name, c := range map[string]struct {
		kind memory.Kind
		end  func(t *testing.T, f *fetcher, key uint32)
	}{
		"deregistration": {memory.MR, func(t *testing.T, f *fetcher, _ uint32) {
			if err := f.hosts[1].PD.Deregister(f.mrs[1]); err != nil {
				t.Fatal(err)
			}
		}},
		"local invalidation": {memory.MW2, func(t *testing.T, f *fetcher, key uint32) {
			f.post(t, 1, rig.Send{Op: queue.LocalInv, ImmInv: key})
			if got := f.polled(1); len(got) != 1 || got[0].Status != queue.Success {
				t.Fatalf("invalidate: %+v", got)
			}
		}},
		"end of a window": {memory.MW2, func(t *testing.T, f *fetcher, key uint32) {
			if err := f.hosts[1].PD.FreeWindow(key); err != nil {
				t.Fatal(err)
			}
		}},
		"other binding": {memory.MW1, func(t *testing.T, f *fetcher, key uint32) {
			f.bind(t, f.qps[1], key)
		}},
		"other binding by another lane": {memory.MW1, func(t *testing.T, f *fetcher, key uint32) {
			f.bind(t, f.other, key)
		}},
		"remote invalidation": {memory.MW2, func(t *testing.T, f *fetcher, key uint32) {
			if err := rig.PostRecv(f.qps[1].Recv, 1); err != nil {
				t.Fatal(err)
			}
			// Posting sends at once, and the fetcher receives nothing while it is not driven.
			if err := rig.PostSend(f.qps[0], rig.Send{Op: queue.SendInv, ImmInv: key, Flags: queue.Signaled}); err != nil {
				t.Fatal(err)
			}
			f.hosts[1].Dev.Progress()
			if got := f.polled(1); len(got) != 1 || got[0].Status != queue.Success || got[0].Op != queue.WCRecv {
				t.Fatalf("invalidate: %+v", got)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFetcher(t)
			key := f.mrs[1].Key
			if c.kind != memory.MR {
				window, err := f.hosts[1].PD.AllocWindow(c.kind)
				if err != nil {
					t.Fatal(err)
				}
				key = f.bind(t, f.qps[1], window)
			}
			f.post(t, 0, rig.Send{Op: queue.Read, SGEs: []memory.SGE{{Length: fetched, LKey: f.mrs[0].Key}}, RKey: key})
			f.hosts[1].Dev.Progress() // its responses are in the ring
			c.end(t, f, key)
			for i := range f.bufs[1] {
				f.bufs[1][i] = 0xee
			}
			got, err := f.hosts[0].Wait(f.cqs[0], 1)
			if err != nil {
				t.Fatal(err)
			}
			if got[0].Status != queue.RemAccessErr {
				t.Errorf("the READ completed with %v", got[0].Status)
			}
			if bytes.IndexByte(f.bufs[0], 0xee) >= 0 {
				t.Error("bytes were fetched that were stored after the key became invalid")
			}
		})
	}
}
