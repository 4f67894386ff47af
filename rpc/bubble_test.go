package rpc_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"softrdma/internal/simnet"
	"softrdma/internal/simnet/bubble"
	"softrdma/rpc"
	"softrdma/verbs"
)

const (
	bubblePeer      = 5 * time.Second
	bubbleReconnect = 20 * time.Second
	endsWithin      = bubblePeer + bubbleReconnect + 10*time.Second // the last attempt to connect
)

// A seedRun is one run: a client makes calls to a server, while connections are cut and the network
// fails at steps that the seed chooses. In some runs the server ends for good.
type seedRun struct {
	seed             uint64
	rng              *rand.Rand
	world            *bubble.World
	servers, clients []*bubble.Host // one device each: the rails
	srv              *rpc.Server
	client           *rpc.Client
	ledger           ledger
	next             atomic.Uint64
	end              func()                    // of the server, nil if it does not end
	gone             *bubble.Host              // whose device may be closed during the run
	at               atomic.Pointer[time.Time] // when the server began to end
	ended            chan struct{}

	mu      sync.Mutex
	errors  []string
	unknown int // calls with an unknown outcome
	results map[uint64]error
}

func (s *seedRun) report(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.errors = append(s.errors, fmt.Sprintf(format, args...))
}

func newSeedRun(seed uint64) (s *seedRun, err error) {
	s = &seedRun{seed: seed, rng: rand.New(rand.NewPCG(seed, 19)), ended: make(chan struct{}), results: map[uint64]error{}}
	f := simnet.Faults{Delay: time.Duration(1+s.rng.IntN(50)) * time.Microsecond, Jitter: time.Duration(s.rng.IntN(20)) * time.Microsecond}
	if s.rng.IntN(3) == 0 {
		f.Loss, f.Reorder, f.Duplicate = .02, .02, .02
	}
	s.world = bubble.New(seed, simnet.LinkConfig{Egress: f, Ingress: f})
	rails := 1 + int(seed%2)
	for i := range rails {
		for side, hosts := range []*[]*bubble.Host{&s.servers, &s.clients} {
			h, err := s.world.Open(fmt.Sprintf("127.0.%d.%d", 1+i, 1+side))
			if err != nil {
				return nil, err
			}
			*hosts = append(*hosts, h)
		}
	}
	if s.srv, err = rpc.NewServer(rpc.ServerConfig{
		Rails: rails > 1, Calls: 2 + s.rng.IntN(6), Inline: 200, Bytes: 1 << 20, MaxBody: 10_000, PeerTimeout: bubblePeer, SessionTimeout: time.Hour,
	}); err != nil {
		return nil, err
	}
	if err = s.srv.Register("test", s.ledger.record(rpc.RunAuto)); err != nil {
		return nil, err
	}
	var addresses []string
	for i, h := range s.servers {
		at, err := s.srv.ListenOn(h.Device, fmt.Sprintf("127.0.%d.1:0", 1+i))
		if err != nil {
			return nil, err
		}
		addresses = append(addresses, at.String())
	}
	var more []*verbs.Device
	for _, h := range s.clients[1:] {
		more = append(more, h.Device)
	}
	connections := 1 + s.rng.IntN(3)
	s.client, err = rpc.Dial(context.Background(), strings.Join(addresses, ","), rpc.ClientConfig{
		Device: s.clients[0].Device, Rails: more, Connections: connections, Calls: 2 + s.rng.IntN(6), Inline: 200, MaxBody: 10_000,
		PeerTimeout: bubblePeer, ReconnectTimeout: bubbleReconnect,
	})
	if err == nil {
		s.plan(connections)
	}
	return s, err
}

// plan chooses what fails, and when.
func (s *seedRun) plan(connections int) {
	step := func() int { return s.world.Sent() + 1 + s.rng.IntN(500) }
	for range s.rng.IntN(5) {
		outage := []time.Duration{time.Millisecond, time.Second, 8 * time.Second}[s.rng.IntN(3)]
		switch i := s.rng.IntN(connections); s.rng.IntN(4) {
		case 0:
			s.world.At(step(), func() { rpc.CutClient(s.client, i) })
		case 1:
			s.world.At(step(), func() { rpc.CutServer(s.srv) })
		default:
			h := s.clients[s.rng.IntN(len(s.clients))]
			s.world.At(step(), func() {
				h.Kill()
				time.Sleep(outage)
				h.Restore()
			})
		}
	}
	if len(s.servers) > 1 {
		s.planRail(step())
	}
	switch s.rng.IntN(6) {
	case 0:
		s.end = func() { s.atServers((*bubble.Host).Kill) }
	case 1:
		s.end = func() { _ = s.srv.Close() }
	case 2:
		s.end = func() { s.atServers(func(h *bubble.Host) { _ = h.Device.Close() }) }
	default:
		return
	}
	s.world.At(step(), s.kill)
}

// planRail chooses a device that ends for good, in some runs. The session continues with the other.
func (s *seedRun) planRail(step int) {
	i := s.rng.IntN(2)
	h := [][]*bubble.Host{s.servers, s.clients}[s.rng.IntN(2)][i]
	switch s.rng.IntN(3) {
	case 0:
		s.gone = h
		s.world.At(step, func() { _ = h.Device.Close() })
	case 1:
		s.world.At(step, func() { s.servers[i].Kill() })
	}
}

func (s *seedRun) atServers(f func(*bubble.Host)) {
	for _, h := range s.servers {
		f(h)
	}
}

// kill ends the server.
func (s *seedRun) kill() {
	now := time.Now()
	if s.at.CompareAndSwap(nil, &now) {
		s.end()
		close(s.ended)
	}
}

// calls makes calls one after the other.
func (s *seedRun) calls(rng *rand.Rand) {
	m := s.client.Method("test/record", nil)
	for range 10 {
		body := make([]byte, 8+[]int{0, 150, 400, 6000}[rng.IntN(4)])
		id := s.next.Add(1) - 1
		binary.BigEndian.PutUint64(body, id)
		var err error
		if rng.IntN(4) == 0 {
			err = m.Send(context.Background(), body)
		} else {
			var got []byte
			if got, err = m.Bytes(context.Background(), body, nil); err == nil && !bytes.Equal(got, body) {
				s.report("call %d has another answer, of %d bytes", id, len(got))
			}
			s.mu.Lock()
			s.results[id] = err
			s.mu.Unlock()
		}
		at := s.at.Load()
		switch {
		case err == nil:
		case at == nil || !errors.Is(err, rpc.ErrUnreachable) && !errors.Is(err, rpc.ErrOutcomeUnknown):
			s.report("call %d: %v", id, err)
		case time.Since(*at) > endsWithin && errors.Is(err, rpc.ErrOutcomeUnknown):
			s.report("call %d ended %v after the server: %v", id, time.Since(*at), err)
		}
		if rng.IntN(3) == 0 {
			time.Sleep(time.Duration(rng.IntN(200)) * time.Microsecond)
		}
	}
}

// play plays a run to its end.
func (s *seedRun) play() {
	var all sync.WaitGroup
	for i := range 5 {
		all.Go(func() { s.calls(rand.New(rand.NewPCG(s.seed, uint64(i)))) })
	}
	all.Wait()
	if s.end != nil {
		s.kill()
		<-s.ended
	} else {
		rpc.Quiet(s.client) // one-way messages
	}
	s.audit()
	if err := s.client.Close(); err != nil {
		s.report("close of the client: %v", err)
	}
	if err := s.srv.Close(); err != nil && s.end == nil {
		s.report("close of the server: %v", err)
	}
	for _, h := range s.clients {
		s.closeHost(h, h == s.gone)
	}
	for _, h := range s.servers {
		s.closeHost(h, h == s.gone || s.end != nil)
	}
	time.Sleep(10 * time.Second) // until outages have ended
	s.world.End()
}

// closeHost closes a device, which may be closed already, and checks that nothing is left on it.
func (s *seedRun) closeHost(h *bubble.Host, closed bool) {
	if c := h.Device.Counts(); c != (verbs.Counts{}) && !closed {
		s.report("%s: objects are left: %+v", h.Device.Name(), c)
	}
	if err := h.Device.Close(); err != nil && !closed {
		s.report("%s: close of the device: %v", h.Device.Name(), err)
	}
}

// audit compares what was executed with what the calls returned.
func (s *seedRun) audit() {
	s.ledger.mu.Lock()
	defer s.ledger.mu.Unlock()
	for id := range s.next.Load() {
		runs := s.ledger.runs[id]
		err, call := s.results[id]
		unknown := errors.Is(err, rpc.ErrOutcomeUnknown)
		if unknown {
			s.unknown++
		}
		switch {
		case runs > 1, runs == 1 && err != nil && !unknown:
			s.report("request %d was carried out %d times: %v", id, runs, err)
		case runs == 0 && err == nil && (call || s.end == nil):
			s.report("request %d was not carried out", id)
		}
	}
}

// Connections are cut, the network fails and the server ends at any point: no request is executed
// twice, none is lost unless the server ends, each call ends with its own answer or the right error,
// and nothing is left in the end.
func TestSessionSurvivesFailuresAtAnyPointSeeds(t *testing.T) {
	ends, unknown := 0, 0
	n := bubble.Seeds(t, 50, func(t *testing.T, seed uint64) []string {
		s, err := newSeedRun(seed)
		if err != nil {
			t.Fatal(err)
		}
		s.play()
		if s.end != nil {
			ends++
			unknown += min(s.unknown, 1)
		}
		return s.errors
	})
	t.Logf("the server ended in %d runs, with calls in flight in %d", ends, unknown)
	if n >= 50 && unknown < ends/3 {
		t.Errorf("calls were in flight in %d of %d runs in which the server ended, expected more", unknown, ends)
	}
}
