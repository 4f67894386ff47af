package msg_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"softrdma/internal/simnet"
	"softrdma/internal/simnet/bubble"
	"softrdma/msg"
	"softrdma/verbs"
)

const repairTimeout = 2 * time.Second // Config.PeerTimeout

// repairedWithin bounds the time until a rail whose path has come back works: both ends notice that it had
// failed, an attempt that has begun ends, and the longest pause.
const repairedWithin = 3*repairTimeout + 12*time.Second

// A repairRun is one run: two workers with several devices, whose paths go and come back.
type repairRun struct {
	wrongs
	rng      *rand.Rand
	world    *bubble.World
	hosts    [2][]*bubble.Host
	workers  [2]*msg.Worker
	e        *msg.Endpoint
	failures [2][]error // of endpoints
	stopped  context.Context
	limit    context.Context // of the whole run
}

func newRepairRun(seed uint64) (*repairRun, error) {
	s := &repairRun{rng: rand.New(rand.NewPCG(seed, 19))}
	f := simnet.Faults{Delay: time.Duration(1+s.rng.IntN(50)) * time.Microsecond, Jitter: time.Duration(s.rng.IntN(20)) * time.Microsecond}
	if s.rng.IntN(3) == 0 {
		f.Loss, f.Reorder, f.Duplicate = .01, .01, .01
	}
	s.world = bubble.New(seed, simnet.LinkConfig{Egress: f, Ingress: f})
	rails, how := 2+s.rng.IntN(2), msg.Rendezvous(s.rng.IntN(3))
	for side := range s.workers {
		c := msg.Config{Eager: 300, Unexpected: 8, PeerTimeout: repairTimeout, Rendezvous: how}
		c.Failed = func(_ *msg.Endpoint, err error) { s.failures[side] = append(s.failures[side], err) }
		for i := range rails {
			h, err := s.world.Open(fmt.Sprintf("127.0.%d.%d", side, 2+i))
			if err != nil {
				return nil, err
			}
			if s.hosts[side] = append(s.hosts[side], h); i > 0 {
				c.Rails = append(c.Rails, h.Device)
			}
		}
		var err error
		if s.workers[side], err = msg.NewWorker(s.hosts[side][0].Device, c); err != nil {
			return nil, err
		}
	}
	var err error
	s.e, err = s.workers[0].Connect(context.Background(), s.workers[1].Address())
	return s, err
}

// works waits until all rails work.
func (s *repairRun) works() bool {
	for end := time.Now().Add(repairedWithin); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if len(s.e.Rails()) == len(s.hosts[0]) {
			return true
		}
	}
	return false
}

// trouble cuts the paths of rails, each at another time, until each was cut.
func (s *repairRun) trouble() {
	for _, i := range s.rng.Perm(len(s.hosts[0])) {
		if !s.works() {
			s.report("%d of %d rails work, error %v", len(s.e.Rails()), len(s.hosts[0]), s.e.Err())
			return
		}
		time.Sleep(time.Duration(s.rng.Int64N(int64(50 * time.Millisecond))))
		h := s.hosts[s.rng.IntN(2)][i]
		h.Kill()
		time.Sleep(time.Duration(s.rng.Int64N(int64(4 * repairTimeout))))
		h.Restore()
		time.Sleep(2 * repairTimeout) // until both have noticed
	}
	if !s.works() {
		s.report("%d of %d rails work in the end, error %v", len(s.e.Rails()), len(s.hosts[0]), s.e.Err())
	}
}

// send sends messages with numbers until stopped, and adds to a word meanwhile. It returns the number of
// messages, and of additions, of which some are uncertain.
func (s *repairRun) send(rng *rand.Rand, m *msg.Remote) (messages, adds, uncertain uint64) {
	for ; s.stopped.Err() == nil; messages++ {
		data := make([]byte, 8+[]int{0, 8, 200, 3000, 600_000}[rng.IntN(5)])
		for i := range data {
			data[i] = byte(messages)
		}
		binary.BigEndian.PutUint64(data, messages)
		requests := []*msg.Request{s.e.Send(messages, msg.Buffers{data}, nil), m.Put(8, msg.Buffers{data[:200%len(data)]}), m.Get(8, msg.Buffers{make([]byte, 500)})}
		for range rng.IntN(3) {
			r := m.Atomic64(msg.AtomicAdd, 0, 1, nil)
			adds++
			if _, err := r.Wait(s.limit); errors.Is(err, msg.ErrUncertain) {
				uncertain++
			} else if err != nil {
				s.report("atomic operation %d: %v", adds, err)
			}
		}
		if rng.IntN(4) == 0 {
			requests = append(requests, s.e.Flush())
		}
		for i, r := range requests {
			if _, err := r.Wait(s.limit); err != nil {
				s.report("message %d, request %d: %v", messages, i, err)
				return
			}
		}
		time.Sleep(time.Duration(rng.IntN(300)) * time.Millisecond)
	}
	return messages, adds, uncertain
}

// receive receives messages, checks that each arrives once and in order, and returns their number.
func (s *repairRun) receive(ctx context.Context) (n uint64) {
	buf := make([]byte, 1<<20)
	for ; ; n++ {
		r := s.workers[1].Receive(msg.Buffers{buf}, 0, 0)
		info, err := r.Wait(ctx)
		if err != nil {
			r.Cancel()
			return n
		}
		if got := binary.BigEndian.Uint64(buf); info.Tag != n || got != n || info.Length > 8 && (buf[8] != byte(n) || buf[info.Length-1] != byte(n)) {
			s.report("message %d arrived, expected %d: %+v", got, n, info)
			return n
		}
	}
}

// play plays a run and returns how many connections of rails were made again.
func (s *repairRun) play() (restored uint64) {
	var cancel context.CancelFunc
	s.limit, cancel = context.WithTimeout(context.Background(), 20*time.Minute)
	defer cancel()
	region, err := s.workers[1].Map(make([]byte, 4096), msg.AllowAll)
	if err != nil {
		s.report("%v", err)
		return 0
	}
	m, err := s.e.Remote(region.Key())
	if err != nil {
		s.report("%v", err)
		return 0
	}
	var stop, end context.CancelFunc
	s.stopped, stop = context.WithCancel(context.Background())
	receiving, end := context.WithCancel(context.Background())
	var programs, receiver sync.WaitGroup
	var messages, adds, uncertain, received uint64
	rng := rand.New(rand.NewPCG(s.rng.Uint64(), 0))
	programs.Go(func() { messages, adds, uncertain = s.send(rng, m) })
	receiver.Go(func() { received = s.receive(receiving) })
	s.trouble()
	stop()
	programs.Wait()
	if _, err := s.e.Flush().Wait(s.limit); err != nil {
		s.report("flush: %v", err)
	}
	time.Sleep(time.Second)
	end()
	receiver.Wait()
	if n := word64(region.Bytes()[:8]); received != messages || n > adds || n+uncertain < adds {
		s.report("%d of %d messages, %d of %d additions, %d uncertain", received, messages, n, adds, uncertain)
	}
	failed, restored := s.e.RailCounts()
	if failed < restored || s.e.Err() != nil || len(s.failures[0])+len(s.failures[1]) > 0 {
		s.report("%d connections failed, %d were made again, endpoint %v, failures %v", failed, restored, s.e.Err(), s.failures)
	}
	if err := s.e.Close(s.limit); err != nil {
		s.report("close: %v", err)
	}
	for side, w := range s.workers {
		if err := w.Close(); err != nil {
			s.report("close of worker %d: %v", side, err)
		}
		for _, h := range s.hosts[side] {
			if c := h.Device.Counts(); c != (verbs.Counts{}) {
				s.report("objects are left: %+v", c)
			}
			if err := h.Device.Close(); err != nil {
				s.report("close of a device: %v", err)
			}
		}
	}
	s.world.End()
	return restored
}

// The path of each rail goes and comes back, so that no rail works all the time. The rail is used again, every
// message arrives once and in order, and no failure is reported.
func TestRailsAreUsedAgainWhenTheirPathComesBackSeeds(t *testing.T) {
	restored := uint64(0)
	n := bubble.Seeds(t, 20, func(t *testing.T, seed uint64) []string {
		s, err := newRepairRun(seed)
		if err != nil {
			t.Fatal(err)
		}
		restored += s.play()
		return s.errors
	})
	if restored < uint64(n)/2 {
		t.Errorf("%d connections of rails were made again in %d runs, expected more", restored, n)
	}
}

// Packets of the connection manager that are lost do not make the end that has sent them take the other,
// which lives, for silent, however short the time is after which it would be. Replies are lost for more than
// half of it.
func TestLostReplyDoesNotFailALivingPeer(t *testing.T) {
	for timeout, lost := range map[time.Duration]time.Duration{
		5 * time.Second: 3 * time.Second, time.Second: 620 * time.Millisecond, 400 * time.Millisecond: 220 * time.Millisecond,
		200 * time.Millisecond: 110 * time.Millisecond,
	} {
		synctest.Test(t, func(t *testing.T) {
			world := bubble.New(1, simnet.LinkConfig{Egress: simnet.Faults{Delay: 10 * time.Microsecond}})
			var hosts [2]*bubble.Host
			var workers [2]*msg.Worker
			failed := make(chan error, 2)
			for i := range workers {
				var err error
				if hosts[i], err = world.Open(fmt.Sprintf("127.0.0.%d", 2+i)); err != nil {
					t.Fatal(err)
				}
				c := msg.Config{PeerTimeout: timeout, Failed: func(_ *msg.Endpoint, err error) { failed <- err }}
				if workers[i], err = msg.NewWorker(hosts[i].Device, c); err != nil {
					t.Fatal(err)
				}
			}
			world.At(world.Sent()+1, func() { // the request is on its way
				hosts[0].Kill()
				time.Sleep(lost)
				hosts[0].Restore()
			})
			e, err := workers[0].Connect(context.Background(), workers[1].Address())
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(5 * time.Second)
			if e.Err() != nil || len(failed) > 0 {
				t.Errorf("packets lost for %v of %v: endpoint %v, %d failures", lost, timeout, e.Err(), len(failed))
			}
			for i, w := range workers {
				if err := w.Close(); err != nil {
					t.Error(err)
				}
				if err := hosts[i].Device.Close(); err != nil {
					t.Error(err)
				}
			}
			world.End()
		})
	}
}

// The first rail fails while the worker that accepted the endpoint still waits for the last packet of the
// second rail's handshake, which the other end uses already. The endpoint lives.
func TestRailThatIsBeingAcceptedKeepsTheEndpoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		world := bubble.New(1, simnet.LinkConfig{Egress: simnet.Faults{Delay: time.Millisecond}})
		var hosts [2][2]*bubble.Host
		var workers [2]*msg.Worker
		for side := range workers {
			c := msg.Config{PeerTimeout: repairTimeout, Failed: func(_ *msg.Endpoint, err error) { t.Error(err) }}
			for i := range hosts[side] {
				h, err := world.Open(fmt.Sprintf("127.0.%d.%d", side, 2+i))
				if err != nil {
					t.Fatal(err)
				}
				hosts[side][i] = h
			}
			c.Rails = []*verbs.Device{hosts[side][1].Device}
			var err error
			if workers[side], err = msg.NewWorker(hosts[side][0].Device, c); err != nil {
				t.Fatal(err)
			}
		}
		e, err := workers[0].Connect(context.Background(), workers[1].Address())
		if err != nil {
			t.Fatal(err)
		}
		hosts[1][1].Kill()
		if err := hosts[0][0].Device.Close(); err != nil {
			t.Error(err)
		}
		time.Sleep(10 * time.Millisecond) // the worker notices
		hosts[1][1].Restore()
		r := workers[1].Receive(msg.Buffers{make([]byte, 8)}, 1, msg.All)
		ctx, cancel := context.WithTimeout(context.Background(), 10*repairTimeout)
		defer cancel()
		for _, r := range []*msg.Request{e.Send(1, msg.Buffers{make([]byte, 8)}, nil), r, e.Flush()} {
			if _, err := r.Wait(ctx); err != nil {
				t.Error(err)
			}
		}
		for side, w := range workers {
			if err := w.Close(); err != nil {
				t.Error(err)
			}
			for _, h := range hosts[side] {
				_ = h.Device.Close()
			}
		}
		world.End()
	})
}
