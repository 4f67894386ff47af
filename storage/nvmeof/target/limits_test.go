package target_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"softrdma/internal/simnet"
	"softrdma/internal/simnet/bubble"
	"softrdma/rdmacm"
	"softrdma/storage/block"
	"softrdma/storage/nvmeof/controller"
	"softrdma/storage/nvmeof/host"
	"softrdma/storage/nvmeof/target"
	"softrdma/storage/nvmeof/wire/capsule"
	"softrdma/storage/nvmeof/wire/fabrics"
	"softrdma/storage/nvmeof/wire/logpage"
	"softrdma/verbs"
)

// A simulation is a target at an address of a simulated network, and the device of a host.
type simulation struct {
	target       *target.Target
	server, host *bubble.Host
	addr         string
	open         func(address string) *bubble.Host
	ended        <-chan error // why queues have ended
}

// simulate runs a test with a simulation.
func simulate(t *testing.T, cfg target.Config, test func(t *testing.T, s *simulation)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := bubble.New(1, simnet.LinkConfig{})
		t.Cleanup(w.End)
		open := func(address string) *bubble.Host {
			h, err := w.Open(address)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { h.Device.Close() })
			return h
		}
		s := &simulation{server: open("127.0.0.1"), host: open("127.0.0.2"), open: open}
		ended := make(chan error, 64)
		s.ended = ended
		cfg.Events = func(e target.Event) {
			if e.Kind == target.Ended {
				ended <- e.Err
			}
		}
		var err error
		if s.target, err = target.New(cfg); err != nil {
			t.Fatal(err)
		}
		addr, err := s.target.Listen("127.0.0.1:4420", rdmacm.ListenConfig{Device: s.server.Device})
		if err != nil {
			t.Fatal(err)
		}
		s.addr = addr.String()
		test(t, s)
		if err := s.target.Close(); err != nil {
			t.Error(err)
		}
		if n := s.server.Device.Counts(); n != (verbs.Counts{}) {
			t.Errorf("the target has left %+v", n)
		}
	})
}

// dial connects a host.
func (s *simulation) dial(t *testing.T, cfg host.Config) *host.Controller {
	t.Helper()
	cfg.Dialer = rdmacm.Dialer{Device: s.host.Device}
	c, err := host.Dial(t.Context(), s.addr, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// subsystem adds a subsystem whose namespaces have the backends, from number 1.
func (s *simulation) subsystem(t *testing.T, disks ...block.Backend) *controller.Subsystem {
	t.Helper()
	sub := &controller.Subsystem{NQN: nqn}
	err := s.target.AddSubsystem(sub)
	for i, b := range disks {
		err = errors.Join(err, s.target.AddNamespace(sub, uint32(i+1), b, false))
	}
	if err != nil {
		t.Fatal(err)
	}
	return sub
}

// disk connects a host to the subsystem and returns a namespace.
func (s *simulation) disk(t *testing.T, id uint32) (*host.Controller, *host.Namespace) {
	t.Helper()
	c := s.dial(t, host.Config{Subsystem: nqn, Repeats: -1})
	n, err := c.Namespace(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return c, n
}

func TestConnectionWithoutConnectCommandEnds(t *testing.T) {
	simulate(t, target.Config{}, func(t *testing.T, s *simulation) {
		c := newRaw(t, s, 0).Conn
		<-c.Done()
		if err := <-s.ended; err == nil || !strings.Contains(err.Error(), "expected a connect command within 30s, found none") {
			t.Errorf("the reason of the end is %v", err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestHostThatTakesNoResponsesIsGivenUp: its commands would hold buffers that all hosts share.
func TestHostThatTakesNoResponsesIsGivenUp(t *testing.T) {
	simulate(t, target.Config{}, func(t *testing.T, s *simulation) {
		c := newRaw(t, s, 0).Conn // it has no receives
		data := fabrics.ConnectData{Controller: fabrics.AnyController, Subsystem: logpage.DiscoveryNQN, Host: host.DefaultNQN}
		mr, err := c.QP().PD().RegisterMemory(append(data.Append(nil), make([]byte, capsule.CommandLen)...), verbs.LocalWrite|verbs.RemoteRead)
		if err != nil {
			t.Fatal(err)
		}
		cmd := fabrics.Connect{QueueSize: 31}.Command()
		cmd.SGL = capsule.KeyedSGL(mr.Addr(), mr.RKey(), fabrics.ConnectDataLen, false)
		cmd.Append(mr.Bytes()[:fabrics.ConnectDataLen])
		if err := c.QP().PostSend(verbs.SendWR{Op: verbs.OpSend, SGL: []verbs.SGE{mr.SGE(fabrics.ConnectDataLen, capsule.CommandLen)}}); err != nil {
			t.Fatal(err)
		}
		if err := <-s.ended; err == nil || !strings.Contains(err.Error(), "expected the host to take a response or data within 30s") {
			t.Errorf("the reason of the end is %v", err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestVanishedHostIsGivenUp(t *testing.T) {
	simulate(t, target.Config{}, func(t *testing.T, s *simulation) {
		c, err := host.Dial(t.Context(), s.addr, host.Config{KeepAlive: -1, Dialer: rdmacm.Dialer{Device: s.host.Device}})
		if err != nil {
			t.Fatal(err)
		}
		s.host.Kill()
		if err := <-s.ended; err == nil {
			t.Error("expected the reason of the end")
		}
		_ = c.Close() // its peer is not reached
	})
}

func TestConnectionsAreLimited(t *testing.T) {
	simulate(t, target.Config{Connections: 1}, func(t *testing.T, s *simulation) {
		cfg := host.Config{Dialer: rdmacm.Dialer{Device: s.host.Device}}
		c, err := host.Dial(t.Context(), s.addr, cfg)
		if err != nil {
			t.Fatal(err)
		}
		var rejected *host.RejectError
		if _, err := host.Discover(t.Context(), s.addr, cfg); !errors.As(err, &rejected) || rejected.Status != fabrics.RejectResources {
			t.Errorf("expected %v, found %v", fabrics.RejectResources, err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		<-s.ended
		synctest.Wait()
		if _, err := host.Discover(t.Context(), s.addr, cfg); err != nil {
			t.Errorf("after the end of the first: %v", err)
		}
	})
}

// TestSilentConnectionsLeaveRoomForOtherHosts: everyone who reaches the target can make them.
func TestSilentConnectionsLeaveRoomForOtherHosts(t *testing.T) {
	const connections, share = 8, 2
	simulate(t, target.Config{Connections: connections}, func(t *testing.T, s *simulation) {
		s.subsystem(t, newMemory(t))
		cfg := host.Config{Subsystem: nqn, Dialer: rdmacm.Dialer{Device: s.host.Device}}
		silent := newRaw(t, s, 0)
		discovers := newRaw(t, s, 2)
		discovers.enable(logpage.DiscoveryNQN, 0)
		var rejected *host.RejectError
		if c, err := host.Dial(t.Context(), s.addr, cfg); !errors.As(err, &rejected) || rejected.Status != fabrics.RejectResources {
			t.Fatalf("expected %v, found %v, connected: %v", fabrics.RejectResources, err, c != nil)
		}
		// Another host has its own share, and its queues to the disk do not count.
		other := s.open("127.0.0.3")
		cfg.Queues, cfg.Dialer.Device = 2*share, other.Device
		c, err := host.Dial(t.Context(), s.addr, cfg)
		if err != nil {
			t.Fatal(err)
		}
		<-silent.Done()
		for _, err := range []error{c.Close(), silent.Close(), discovers.Close()} {
			if err != nil {
				t.Error(err)
			}
		}
		time.Sleep(time.Second)
		cfg.Dialer.Device = s.host.Device
		if c, err = host.Dial(t.Context(), s.addr, cfg); err != nil {
			t.Fatalf("after the end of the connections: %v", err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestDiscoveryLeavesBuffersToDisks: everyone who reaches the target can use it.
func TestDiscoveryLeavesBuffersToDisks(t *testing.T) {
	const most = 128 << 10
	simulate(t, target.Config{Buffers: 2 * most, Limits: controller.Limits{MaxTransfer: most}}, func(t *testing.T, s *simulation) {
		s.subsystem(t, newMemory(t))
		r := newRaw(t, s, 2)
		r.enable(logpage.DiscoveryNQN, 0)
		for range 3 { // no receive is left for the responses
			r.send(logpage.Command(logpage.Discovery, 0, most), most)
			time.Sleep(time.Second)
		}
		began := time.Now()
		c, _ := s.disk(t, 1)
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("another host has connected after %v", took)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		r.end()
	})
}

// TestDiscoveryNamesManySubsystems: their log is longer than a command moves.
func TestDiscoveryNamesManySubsystems(t *testing.T) {
	const others = 300
	simulate(t, target.Config{}, func(t *testing.T, s *simulation) {
		s.subsystem(t)
		for i := range others {
			if err := s.target.AddSubsystem(&controller.Subsystem{NQN: fmt.Sprintf("nqn.2024-01.org.example:disk%d", i)}); err != nil {
				t.Fatal(err)
			}
		}
		list, err := host.Discover(t.Context(), s.addr, host.Config{Dialer: rdmacm.Dialer{Device: s.host.Device}})
		if err != nil || len(list) != others+2 || list[others+1].Subsystem != "nqn.2024-01.org.example:disk299" {
			t.Errorf("found %d entries, %v", len(list), err)
		}
	})
}
