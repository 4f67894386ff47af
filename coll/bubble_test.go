package coll_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"softrdma/coll"
	"softrdma/internal/simnet"
	"softrdma/internal/simnet/bubble"
	"softrdma/msg"
	"softrdma/verbs"
)

// A manner is how a member ends.
type manner int

const (
	losesPower   manner = iota // packets from and to its device vanish
	closesWorker               // msg.Worker.Close
	closesDevice               // verbs.Device.Close
	manners
)

func (m manner) String() string {
	return [...]string{"loses power", "closes its worker", "closes its device"}[m]
}

const (
	bubbleTimeout = 5 * time.Second                 // msg.Config.PeerTimeout
	endsWithin    = 2*bubbleTimeout + 2*time.Second // an attempt to connect, and silence
)

// A seedRun is one run: members that call the same operations, one of which ends at a step that the
// seed chooses.
type seedRun struct {
	seed    uint64
	world   *bubble.World
	manner  manner
	victim  int
	hosts   []*bubble.Host
	workers []*msg.Worker
	groups  []*coll.Group
	once    sync.Once
	killed  chan struct{}
	at      atomic.Pointer[time.Time] // when the victim began to end

	mu     sync.Mutex
	errors []string
	cut    int // members whose call the end of the victim has ended
}

func (s *seedRun) report(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.errors = append(s.errors, fmt.Sprintf(format, args...))
}

func newSeedRun(seed uint64) (*seedRun, error) {
	rng := rand.New(rand.NewPCG(seed, 18))
	f := simnet.Faults{Delay: time.Duration(1+rng.IntN(50)) * time.Microsecond, Jitter: time.Duration(rng.IntN(20)) * time.Microsecond}
	if rng.IntN(3) == 0 {
		f.Loss, f.Reorder, f.Duplicate = .01, .01, .01
	}
	n := 2 + rng.IntN(4)
	s := &seedRun{
		seed: seed, manner: manner(rng.IntN(int(manners))), victim: rng.IntN(n), killed: make(chan struct{}),
		world: bubble.New(seed, simnet.LinkConfig{Egress: f, Ingress: f}),
	}
	step := 1 + rng.IntN(600)
	if rng.IntN(3) == 0 {
		step = 1 + rng.IntN(60)
	}
	s.world.At(step, s.kill)
	var addresses [][]byte
	config := msg.Config{Eager: 256, Unexpected: 4, Announced: 4, Active: 4, Stream: 256, PeerTimeout: bubbleTimeout}
	for r := range n {
		h, err := s.world.Open(fmt.Sprintf("127.0.0.%d", 2+r))
		if err != nil {
			return nil, err
		}
		w, err := msg.NewWorker(h.Device, config)
		if err != nil {
			return nil, err
		}
		s.hosts, s.workers, addresses = append(s.hosts, h), append(s.workers, w), append(addresses, w.Address())
	}
	for r := range n {
		g, err := coll.New(context.Background(), s.workers[r], coll.Config{Rank: r, Addresses: addresses, Device: s.hosts[r].Device})
		if err != nil {
			return nil, err
		}
		s.groups = append(s.groups, g)
	}
	return s, nil
}

// kill ends the victim.
func (s *seedRun) kill() {
	s.once.Do(func() {
		now := time.Now()
		s.at.Store(&now)
		switch s.manner {
		case losesPower:
			s.hosts[s.victim].Kill()
		case closesWorker:
			_ = s.workers[s.victim].Close()
		case closesDevice:
			_ = s.hosts[s.victim].Device.Close()
		}
		close(s.killed)
	})
}

// calls calls operations until one fails, and closes the group.
func (s *seedRun) calls(g *coll.Group) {
	ctx := context.Background()
	rng := rand.New(rand.NewPCG(s.seed, 0)) // the same for all
	var err error
	var began time.Time // of the call, or of the end of the victim
	for i := 0; err == nil && i < 12; i++ {
		n := 1 + rng.IntN(20)
		if rng.IntN(2) == 0 {
			n = 100 + rng.IntN(2000)
		}
		began = time.Now()
		err = s.call(ctx, g, rng.IntN(9), rng.IntN(g.Size()), n)
	}
	if again := coll.Barrier(ctx, g); err == nil {
		err = again
	} else if errors.Unwrap(again) != errors.Unwrap(err) { // behind the operation's name
		s.report("rank %d: %v, and then %v", g.Rank(), err, again)
	}
	if e := g.Close(ctx); err == nil && errors.Is(e, coll.ErrMember) {
		err = e
	}
	if err == nil || g.Rank() == s.victim {
		return
	}
	s.mu.Lock()
	s.cut++
	s.mu.Unlock()
	e, at := (*coll.MemberError)(nil), s.at.Load()
	if at != nil && at.After(began) {
		began = *at
	}
	if at == nil || time.Since(began) > endsWithin || !errors.As(err, &e) || e.Rank != s.victim || !errors.Is(err, coll.ErrGone) {
		s.report("rank %d: %v, after %v, expected that rank %d is gone", g.Rank(), err, time.Since(began), s.victim)
	}
}

// call calls an operation, and checks the result of reductions.
func (s *seedRun) call(ctx context.Context, g *coll.Group, operation, root, n int) error {
	size := g.Size()
	x, all := make([]int64, n), make([]int64, n*size)
	for i := range x {
		x[i] = int64(g.Rank() + 1)
	}
	sum := int64(size * (size + 1) / 2)
	var err error
	switch operation {
	case 0:
		return coll.Barrier(ctx, g)
	case 1:
		return coll.Broadcast(ctx, g, root, x)
	case 2:
		if err = coll.Reduce(ctx, g, root, x, x, coll.Sum[int64]()); g.Rank() != root {
			return err
		}
	case 3:
		err = coll.AllReduce(ctx, g, x, x, coll.Sum[int64]())
	case 4:
		if g.Rank() != root {
			all = nil
		}
		return coll.Gather(ctx, g, root, all, x)
	case 5:
		return coll.AllGather(ctx, g, all, x)
	case 6:
		return coll.AllToAll(ctx, g, all, make([]int64, len(all)))
	case 7:
		err, sum = coll.Scan(ctx, g, x, x, coll.Sum[int64]()), int64((g.Rank()+1)*(g.Rank()+2)/2)
	case 8:
		for i := range all {
			all[i] = int64(g.Rank() + 1)
		}
		err = coll.ReduceScatter(ctx, g, x, all, coll.Sum[int64]())
	}
	if err == nil && (x[0] != sum || x[n-1] != sum) {
		s.report("rank %d: operation %d has the result %d, expected %d", g.Rank(), operation, x[0], sum)
	}
	return err
}

// play plays a run to its end.
func (s *seedRun) play() {
	each(s.groups, func(g *coll.Group) error {
		s.calls(g)
		return nil
	})
	s.kill()
	<-s.killed
	for r, h := range s.hosts {
		dead := r == s.victim && s.manner != losesPower
		if err := s.workers[r].Close(); err != nil && !dead {
			s.report("rank %d: close of the worker: %v", r, err)
		}
		if c := h.Device.Counts(); c != (verbs.Counts{}) && !dead {
			s.report("rank %d: objects are left: %+v", r, c)
		}
		if err := h.Device.Close(); err != nil && !dead {
			s.report("rank %d: close of the device: %v", r, err)
		}
	}
	s.world.End()
}

// A member that ends at any point of any operation: the calls of all others end in time, with an
// error that names it, and nothing is left in the end. Results before are right.
func TestMemberEndsAtAnyPointSeeds(t *testing.T) {
	var runs, cut [manners]int
	n := bubble.Seeds(t, 50, func(t *testing.T, seed uint64) []string {
		s, err := newSeedRun(seed)
		if err != nil {
			t.Fatal(err)
		}
		s.play()
		runs[s.manner]++
		cut[s.manner] += min(s.cut, 1)
		if len(s.errors) > 0 {
			return slices.Insert(s.errors, 0, s.manner.String()+":")
		}
		return nil
	})
	for m := range manners {
		t.Logf("%v: %d runs, calls ended in %d", m, runs[m], cut[m])
		if n >= 50 && cut[m] < runs[m]/2 {
			t.Errorf("%v: calls ended in %d of %d runs, expected more", m, cut[m], runs[m])
		}
	}
}

// openBubble opens workers on hosts without faults. The function closes them.
func openBubble(t *testing.T, n int) (workers []*msg.Worker, addresses [][]byte, end func()) {
	world := bubble.New(1, simnet.LinkConfig{})
	var hosts []*bubble.Host
	for r := range n {
		h, err := world.Open(fmt.Sprintf("127.0.0.%d", 2+r))
		if err != nil {
			t.Fatal(err)
		}
		w, err := msg.NewWorker(h.Device, msg.Config{})
		if err != nil {
			t.Fatal(err)
		}
		hosts, workers, addresses = append(hosts, h), append(workers, w), append(addresses, w.Address())
	}
	return workers, addresses, func() {
		for r, w := range workers {
			if err := errors.Join(w.Close(), hosts[r].Device.Close()); err != nil {
				t.Error(err)
			}
		}
		world.End()
	}
}

// Close of the first group waits only for a short time for messages of a call that has failed, which are
// not received.
func TestCloseAfterMessagesThatNobodyReceives(t *testing.T) {
	const most = 5 * time.Second // less than the time that members get to leave together
	synctest.Test(t, func(t *testing.T) {
		workers, addresses, end := openBubble(t, 2)
		var done sync.WaitGroup
		for r, w := range workers {
			done.Go(func() {
				if err := closesAfterFailure(t.Context(), w, coll.Config{Rank: r, Addresses: addresses}, most); err != nil {
					t.Errorf("rank %d: %v", r, err)
				}
			})
		}
		done.Wait()
		end()
	})
}

// closesAfterFailure makes a group, in which rank 1 does not receive what rank 0 sends, and closes the first
// one.
func closesAfterFailure(ctx context.Context, w *msg.Worker, c coll.Config, most time.Duration) error {
	first, err := coll.New(ctx, w, c)
	if err != nil {
		return err
	}
	g, err := first.Split(ctx, 0, 0)
	if err != nil {
		return err
	}
	if err := g.SetAlgorithm(coll.OpBroadcast, coll.Binomial); err != nil {
		return err
	}
	if g.Rank() == 0 {
		if err := coll.Broadcast(ctx, g, 0, make([]byte, 100_000)); !errors.Is(err, coll.ErrAborted) {
			return fmt.Errorf("%w, expected %w", err, coll.ErrAborted)
		}
	} else {
		time.Sleep(10 * time.Millisecond)
		g.Abort(errors.New("for a test"))
	}
	began := time.Now()
	err = first.Close(ctx)
	if d := time.Since(began); d > most {
		err = errors.Join(err, fmt.Errorf("it was closed after %v, expected %v at most", d, most))
	}
	return err
}

// A member that others cannot reach and take for gone, though it is not, learns that of those that can
// reach it, even if it calls only when their groups are closed.
func TestMemberThatIsWronglyTakenForGoneIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		workers, addresses, end := openBubble(t, 3)
		var all []*coll.Group
		for r, w := range workers {
			c := coll.Config{Rank: r, Addresses: slices.Clone(addresses)}
			if r == 0 {
				c.Addresses[1] = []byte("nonsense")
			}
			g, err := coll.New(t.Context(), w, c)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, g)
		}
		errs := make([]error, len(all))
		call := func(r int) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			errs[r] = coll.AllReduce(ctx, all[r], make([]int, 1), make([]int, 1), coll.Sum[int]())
			if err := all[r].Close(ctx); err != nil {
				t.Errorf("rank %d: close: %v", r, err)
			}
		}
		var others sync.WaitGroup
		others.Go(func() { call(0) })
		others.Go(func() { call(2) })
		others.Wait()
		call(1)
		failed(t, errs, 1, coll.ErrGone)
		end()
	})
}
