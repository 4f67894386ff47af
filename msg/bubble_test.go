package msg_test

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
	bubbleTimeout = 5 * time.Second // Config.PeerTimeout; longer than lost messages of the connection manager take
	endsWithin    = 2 * bubbleTimeout
	idBubble      = 7
)

// wrongs are what was wrong with a run.
type wrongs struct {
	mu     sync.Mutex // guards the run as well
	errors []string
}

func (s *wrongs) report(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.errors = append(s.errors, fmt.Sprintf(format, args...))
}

// A seedRun is one run: three members, one of which ends at a step that the seed chooses.
type seedRun struct {
	seed   uint64
	rng    *rand.Rand
	world  *bubble.World
	manner manner
	list   []*member // the first ends
	keys   [][]byte
	once   sync.Once
	killed chan struct{}
	at     atomic.Pointer[time.Time] // when the first began to end

	wrongs
	cut int // operations that the end of the first has ended
}

// A member is a worker and its part of the program.
type member struct {
	run    *seedRun
	name   int
	hosts  []*bubble.Host // one device each: the rails
	worker *msg.Worker
	region *msg.Region

	mu        sync.Mutex
	endpoints []*msg.Endpoint
	failed    map[*msg.Endpoint]int
	pending   map[*operation]bool
}

// An operation is a request that was started.
type operation struct {
	name    string
	r       *msg.Request
	victim  bool // it waits for the member that ends
	anybody bool // it is a receive that any member may end
}

func newSeedRun(seed uint64) (*seedRun, error) {
	s := &seedRun{seed: seed, rng: rand.New(rand.NewPCG(seed, 17)), killed: make(chan struct{})}
	f := simnet.Faults{Delay: time.Duration(1+s.rng.IntN(50)) * time.Microsecond, Jitter: time.Duration(s.rng.IntN(20)) * time.Microsecond}
	if s.rng.IntN(3) == 0 {
		f.Loss, f.Reorder, f.Duplicate = .02, .02, .02
	}
	s.world = bubble.New(seed, simnet.LinkConfig{Egress: f, Ingress: f})
	s.manner = manner(s.rng.IntN(int(manners)))
	step := 1 + s.rng.IntN(400)
	if s.rng.IntN(3) == 0 {
		step = 1 + s.rng.IntN(40)
	}
	s.world.At(step, s.kill)
	rails := 1 + int(seed%2)
	for i := range 3 {
		m := &member{run: s, name: i, failed: map[*msg.Endpoint]int{}, pending: map[*operation]bool{}}
		var err error
		var more []*verbs.Device
		for k := range rails {
			h, err := s.world.Open(fmt.Sprintf("127.0.%d.%d", k, 2+i))
			if err != nil {
				return nil, err
			}
			if m.hosts = append(m.hosts, h); k > 0 {
				more = append(more, h.Device)
			}
		}
		config := msg.Config{
			Eager: 64 + s.rng.IntN(200), Unexpected: 1 + s.rng.IntN(4), Announced: 1 + s.rng.IntN(4), Active: 1 + s.rng.IntN(4), Stream: 100 + s.rng.IntN(400),
			PeerTimeout: bubbleTimeout, Failed: m.fails, Rendezvous: msg.Rendezvous(s.rng.IntN(3)), Rails: more,
		}
		if m.worker, err = msg.NewWorker(m.hosts[0].Device, config); err != nil {
			return nil, err
		}
		if m.region, err = m.worker.Map(make([]byte, 8<<10), msg.AllowAll); err != nil {
			return nil, err
		}
		m.worker.Handle(idBubble, m.handle)
		s.list, s.keys = append(s.list, m), append(s.keys, m.region.Key())
	}
	return s, nil
}

// kill ends the first member.
func (s *seedRun) kill() { s.once.Do(s.doKill) }

func (s *seedRun) doKill() {
	v, now := s.list[0], time.Now()
	s.at.Store(&now)
	switch s.manner {
	case losesPower:
		for _, h := range v.hosts {
			h.Kill()
		}
	case closesWorker:
		_ = v.worker.Close()
	case closesDevice:
		for _, h := range v.hosts {
			_ = h.Device.Close()
		}
	}
	close(s.killed)
}

func (m *member) fails(e *msg.Endpoint, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.failed[e]++; m.failed[e] > 1 || !errors.Is(err, msg.ErrPeer) {
		m.run.report("member %d: endpoint failed %d times: %v", m.name, m.failed[e], err)
	}
}

func (m *member) handle(a *msg.Active) {
	if a.Length > len(a.Data) {
		m.start("receive of active data", false, a.Receive(msg.Buffers{make([]byte, a.Length)}), true)
	}
}

// start notes an operation that was started.
func (m *member) start(name string, victim bool, r *msg.Request, anybody bool) {
	o := &operation{name, r, victim, anybody}
	m.mu.Lock()
	m.pending[o] = true
	m.mu.Unlock()
	r.Done() // a second end of the request would panic
	r.Then(func(_ msg.Info, err error) { m.ended(o, err) })
}

// ended checks the end of an operation of a member that continues.
func (m *member) ended(o *operation, err error) {
	s := m.run
	m.mu.Lock()
	if !m.pending[o] {
		s.report("%s ended twice", o.name)
	}
	delete(m.pending, o)
	m.mu.Unlock()
	if m.name == 0 || err == nil || o.anybody && errors.Is(err, msg.ErrCanceled) {
		return
	}
	at := s.at.Load()
	if at == nil {
		s.report("member %d: %s ended before anything was wrong: %v", m.name, o.name, err)
		return
	}
	s.mu.Lock()
	s.cut++
	s.mu.Unlock()
	// An atomic operation ends with its rail, before the others are known.
	right := errors.Is(err, msg.ErrPeer) || o.name == "atomic" && len(m.hosts) > 1 && errors.Is(err, msg.ErrUncertain)
	if late := time.Since(*at); !(o.victim || o.anybody) || !right || late > endsWithin {
		s.report("member %d: %s ended after %v: %v", m.name, o.name, late, err)
	}
}

// receive keeps a receive of any message posted.
func (m *member) receive(ctx context.Context) {
	buf := make([]byte, 5000)
	for ctx.Err() == nil {
		r := m.worker.Receive(msg.Buffers{buf}, 0, 0)
		m.start("receive", false, r, true)
		stop := context.AfterFunc(ctx, func() { r.Cancel() })
		<-r.Done()
		stop()
		if _, _, err := r.Poll(); errors.Is(err, msg.ErrClosed) {
			return
		}
	}
}

// program connects to all others and starts operations.
func (m *member) program(rng *rand.Rand) {
	for i := range m.run.list {
		if i == m.name {
			continue
		}
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		e, err := m.worker.Connect(ctx, m.run.list[i].worker.Address())
		cancel()
		if err != nil {
			m.notConnected(i, err)
			continue
		}
		m.mu.Lock()
		m.endpoints = append(m.endpoints, e)
		m.mu.Unlock()
		remote, err := e.Remote(m.run.keys[i])
		if err != nil {
			m.run.report("member %d: key of %d: %v", m.name, i, err)
			continue
		}
		stays := rng.IntN(4) > 0
		for range 5 + rng.IntN(30) {
			m.operate(rng, e, remote, i == 0, stays)
			if rng.IntN(4) == 0 {
				time.Sleep(time.Duration(rng.IntN(200)) * time.Microsecond)
			}
		}
		if i == 0 && !stays {
			m.start("close", true, e.StartClose(), false)
		}
	}
}

func (m *member) notConnected(to int, err error) {
	s := m.run
	named := errors.Is(err, msg.ErrStale) || errors.Is(err, msg.ErrClosed) || errors.Is(err, msg.ErrPeer)
	if s.manner != closesWorker { // there is no answer
		named = named || errors.Is(err, context.DeadlineExceeded)
	}
	if at := s.at.Load(); m.name != 0 && (to != 0 || at == nil || !named) {
		s.report("member %d: no connection to %d: %v", m.name, to, err)
	}
}

// operate starts an operation.
func (m *member) operate(rng *rand.Rand, e *msg.Endpoint, remote *msg.Remote, victim, stays bool) {
	n := rng.IntN(80)
	if rng.IntN(2) == 0 {
		n = 300 + rng.IntN(4000)
	}
	data := make([]byte, n)
	list := [][]byte{data[:n/2], data[n/2:]}
	var old uint64
	var what string
	var r *msg.Request
	switch k := rng.IntN(16); {
	case k < 3:
		what, r = "send", e.Send(1, msg.Buffers{data}, nil)
	case k < 5:
		what, r = "synchronous send", e.Send(2, msg.Buffers{data}, &msg.SendOptions{Sync: true})
	case k == 5:
		what, r = "send of pieces", e.Send(3, list, nil)
	case k < 8:
		what, r = "active message", e.SendActive(idBubble, data[:n%50], msg.Buffers{data}, nil)
	case k == 8:
		what, r = "put", remote.Put(0, msg.Buffers{data})
	case k == 9:
		what, r = "get", remote.Get(8, msg.Buffers{data})
	case k == 10:
		what, r = "get of a list", remote.Get(16, list)
	case k == 11:
		what, r = "atomic", remote.Atomic64(msg.AtomicXor, 4096, 7, &old)
	case k == 12:
		e.Fence()
		what, r = "atomic", remote.Atomic64(msg.AtomicAdd, 4096, 7, &old)
	case k == 13:
		what, r = "flush", e.Flush()
	case k == 14:
		what, r, victim = "flush of the worker", m.worker.Flush(), true
	case !victim:
		return
	case n%2 == 0:
		what, r = "stream", e.SendStream(msg.Buffers{data})
	case !stays: // its end would end the receive
		return
	default:
		what, r = "receive of a stream", e.ReceiveStream(msg.Buffers{data}, nil)
	}
	m.start(what, victim, r, false)
}

// play plays a run to its end.
func (s *seedRun) play() {
	ctx, cancel := context.WithCancel(context.Background())
	var programs, receives sync.WaitGroup
	for _, m := range s.list {
		rng := rand.New(rand.NewPCG(s.seed, uint64(m.name)))
		programs.Go(func() { m.program(rng) })
		for range 1 + rng.IntN(4) {
			if m.name > 0 || rng.IntN(2) == 0 {
				receives.Go(func() { m.receive(ctx) })
			}
		}
	}
	programs.Wait()
	s.kill()
	<-s.killed
	time.Sleep(2 * endsWithin)
	for _, m := range s.list[1:] {
		m.mu.Lock()
		for o := range m.pending {
			if !o.anybody {
				s.report("member %d: %s does not end", m.name, o.name)
			}
		}
		m.mu.Unlock()
	}
	cancel()
	receives.Wait()
	for _, m := range s.list {
		m.close()
	}
	s.world.End()
}

// close ends a member, and checks that nothing is left.
func (m *member) close() {
	s := m.run
	dead := m.name == 0 && s.manner != losesPower
	if err := m.worker.Close(); err != nil && !dead {
		s.report("member %d: close: %v", m.name, err)
	}
	synctest.Wait() // for the calls of Then
	m.mu.Lock()
	for o := range m.pending {
		s.report("member %d: %s does not end with the worker", m.name, o.name)
	}
	m.mu.Unlock()
	for _, h := range m.hosts {
		if c := h.Device.Counts(); c != (verbs.Counts{}) && !(m.name == 0 && s.manner == closesDevice) {
			s.report("member %d: objects are left: %+v", m.name, c)
		}
		if err := h.Device.Close(); err != nil && !dead {
			s.report("member %d: close of the device: %v", m.name, err)
		}
	}
}

// A member that ends at any point: each operation of the others that waits for it ends once, with
// ErrPeer, in time. All other operations continue, and nothing is left in the end.
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
		t.Logf("%v: %d runs, operations in flight in %d", m, runs[m], cut[m])
		if n >= 50 && cut[m] < runs[m]/2 {
			t.Errorf("%v: operations were in flight in %d of %d runs, expected more", m, cut[m], runs[m])
		}
	}
}
