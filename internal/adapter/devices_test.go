package adapter_test

import (
	"bytes"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"softrdma/internal/adapter"
	"softrdma/internal/frame"
	"softrdma/internal/frame/rocev2"
	"softrdma/internal/link"
	"softrdma/internal/link/udp"
	"softrdma/internal/memory"
	"softrdma/internal/object"
	"softrdma/internal/psn"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/simnet/rig"
)

// A countingLink counts the batches sent.
type countingLink struct {
	link.Datagrams
	sent atomic.Int64
}

func (l *countingLink) Send(tx *link.Tx) error {
	l.sent.Add(1)
	return l.Datagrams.Send(tx)
}

// open makes a device on the loopback interface, driven by its own goroutine.
func open(t *testing.T, addr string, b *adapter.Loopback) (*side, *countingLink) {
	t.Helper()
	sock, err := udp.Open(netip.MustParseAddrPort(addr), udp.Config{})
	must(t, err)
	l := &countingLink{Datagrams: sock}
	s := &side{Host: &rig.Host{Dev: adapter.Open(adapter.Config{Networks: []frame.Network{rocev2.New(l)}, Loopback: b})}, mem: make([]byte, regionLen)}
	s.PD, err = s.Dev.AllocPD()
	must(t, err)
	s.cq, err = s.Dev.CreateCQ(64, nil)
	must(t, err)
	s.qp = s.newQP(t, qp.RC, nil)
	s.mr, err = s.PD.Register(s.mem, memory.Addr(s.mem), qp.LocalWrite|qp.RemoteWrite|qp.RemoteRead|qp.RemoteAtomic)
	must(t, err)
	return s, l
}

// complete polls until count completions have arrived.
func (s *side) complete(count int) (got []queue.CQE) {
	deadline := time.Now().Add(20 * time.Second)
	var c [16]queue.CQE
	for len(got) < count && time.Now().Before(deadline) {
		n := rig.Poll(s.cq, c[:])
		got = append(got, c[:n]...)
		if n == 0 {
			s.cq.Progress(true)
		}
	}
	return got
}

// Two devices of one process communicate over real sockets, each driven by its own goroutine and by
// pollers, while both sides post at once.
func TestTwoDevicesInOneProcess(t *testing.T) {
	a, _ := open(t, "127.0.0.1:0", nil)
	b, _ := open(t, "127.0.0.1:0", nil)
	bothWays(t, a, b)
}

// bothWays sends messages in both directions at the same time and waits for them.
func bothWays(t *testing.T, a, b *side) {
	t.Helper()
	must(t, rig.Connect(a.qp, b.qp, rig.Options{MTU: 4096, PSN: [2]psn.PSN{0xfffff0, 7}}))
	const messages, size = 300, 6000
	var wait sync.WaitGroup
	for _, s := range []*side{a, b} {
		for i := range s.mem[:size] {
			s.mem[i] = byte(i) ^ byte(s.qp.QPN)
		}
		for i := range 8 {
			s.recv(t, uint64(1000+i), regionLen/2, size)
		}
	}
	for _, s := range []*side{a, b} {
		wait.Go(func() {
			sent, received, posted := 0, 0, 0
			for sent < messages || received < messages {
				if posted < messages && posted < sent+8 && posted < received+6 {
					if err := rig.PostSend(s.qp, rig.Send{ID: uint64(posted), Op: queue.Send, Flags: queue.Signaled,
						SGEs: []memory.SGE{s.sge(0, size)}}); err != nil {
						t.Error(err)
						return
					}
					posted++
					continue
				}
				got := s.complete(1)
				if len(got) == 0 {
					t.Errorf("nothing came: %d sent, %d received", sent, received)
					return
				}
				for _, c := range got {
					switch {
					case c.Status != queue.Success:
						t.Errorf("completion %+v", c)
						return
					case c.WRID < 1000:
						if int(c.WRID) != sent {
							t.Errorf("request %d completed, expected %d", c.WRID, sent)
						}
						sent++
					default:
						received++
						if err := rig.PostRecv(s.qp.Recv, c.WRID, s.sge(regionLen/2, size)); err != nil {
							t.Error(err)
						}
					}
				}
			}
		})
	}
	wait.Wait()
	if !bytes.Equal(a.mem[regionLen/2:][:size], b.mem[:size]) || !bytes.Equal(b.mem[regionLen/2:][:size], a.mem[:size]) {
		t.Error("wrong bytes arrived")
	}
	for _, s := range []*side{a, b} { // a queue pair that outlives the peer's device may send to the network
		must(t, s.qp.Destroy())
	}
	for _, s := range []*side{a, b} {
		must(t, s.cq.Destroy())
		must(t, s.PD.Deregister(s.mr))
		must(t, s.PD.Dealloc())
		if c := s.Dev.Count(); c != (object.Counts{}) {
			t.Errorf("left over: %+v", c)
		}
		must(t, s.Dev.Close())
	}
}
