package target_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"softrdma/internal/simnet"
	"softrdma/internal/simnet/bubble"
	"softrdma/rdmacm"
	"softrdma/storage/nvmeof/host"
	"softrdma/storage/nvmeof/target"
	"softrdma/storage/nvmeof/wire/capsule"
	"softrdma/storage/nvmeof/wire/fabrics"
	"softrdma/storage/nvmeof/wire/logpage"
	"softrdma/verbs"
)

// simulate runs a test with a target at an address of a simulated network, and the device of a host.
func simulate(t *testing.T, cfg target.Config, test func(t *testing.T, g *target.Target, h *bubble.Host, addr string, ended <-chan error)) {
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
		server, h := open("127.0.0.1"), open("127.0.0.2")
		ended := make(chan error, 8)
		cfg.Events = func(e target.Event) {
			if e.Kind == target.Ended {
				ended <- e.Err
			}
		}
		g, err := target.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		addr, err := g.Listen("127.0.0.1:4420", rdmacm.ListenConfig{Device: server.Device})
		if err != nil {
			t.Fatal(err)
		}
		test(t, g, h, addr.String(), ended)
		if err := g.Close(); err != nil {
			t.Error(err)
		}
		if n := server.Device.Counts(); n != (verbs.Counts{}) {
			t.Errorf("the target has left %+v", n)
		}
	})
}

// queueWithoutConnect connects to a target, and sends no connect command.
func queueWithoutConnect(t *testing.T, dev *verbs.Device, addr string) *rdmacm.Conn {
	t.Helper()
	d := rdmacm.Dialer{Device: dev}
	e, err := d.Resolve(t.Context(), addr)
	if err != nil {
		t.Fatal(err)
	}
	pd, err := dev.AllocPD()
	if err != nil {
		t.Fatal(err)
	}
	cq, err := dev.CreateCQ(verbs.CQConfig{Depth: 4})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.CreateQP(pd, verbs.QPConfig{Type: verbs.RC, SendCQ: cq, MaxSend: 1, MaxRecv: 1}); err != nil {
		t.Fatal(err)
	}
	c, err := e.Connect(t.Context(), rdmacm.ConnParam{PrivateData: fabrics.Request{HostReceives: 32, HostSends: 31}.Append(nil)})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestConnectionWithoutConnectCommandEnds(t *testing.T) {
	simulate(t, target.Config{}, func(t *testing.T, _ *target.Target, h *bubble.Host, addr string, ended <-chan error) {
		c := queueWithoutConnect(t, h.Device, addr)
		<-c.Done()
		if err := <-ended; err == nil || !strings.Contains(err.Error(), "expected a connect command within 30s, found none") {
			t.Errorf("the reason of the end is %v", err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestHostThatTakesNoResponsesIsGivenUp: its commands would hold buffers that all hosts share.
func TestHostThatTakesNoResponsesIsGivenUp(t *testing.T) {
	simulate(t, target.Config{}, func(t *testing.T, _ *target.Target, h *bubble.Host, addr string, ended <-chan error) {
		c := queueWithoutConnect(t, h.Device, addr) // it has no receives
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
		if err := <-ended; err == nil || !strings.Contains(err.Error(), "expected the host to take a response or data within 30s") {
			t.Errorf("the reason of the end is %v", err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestVanishedHostIsGivenUp(t *testing.T) {
	simulate(t, target.Config{}, func(t *testing.T, _ *target.Target, h *bubble.Host, addr string, ended <-chan error) {
		c, err := host.Dial(t.Context(), addr, host.Config{KeepAlive: -1, Dialer: rdmacm.Dialer{Device: h.Device}})
		if err != nil {
			t.Fatal(err)
		}
		h.Kill()
		if err := <-ended; err == nil {
			t.Error("expected the reason of the end")
		}
		_ = c.Close() // its peer is not reached
	})
}

func TestConnectionsAreLimited(t *testing.T) {
	simulate(t, target.Config{Connections: 1}, func(t *testing.T, _ *target.Target, h *bubble.Host, addr string, ended <-chan error) {
		cfg := host.Config{Dialer: rdmacm.Dialer{Device: h.Device}}
		c, err := host.Dial(t.Context(), addr, cfg)
		if err != nil {
			t.Fatal(err)
		}
		var rejected *host.RejectError
		if _, err := host.Discover(t.Context(), addr, cfg); !errors.As(err, &rejected) || rejected.Status != fabrics.RejectResources {
			t.Errorf("expected %v, found %v", fabrics.RejectResources, err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		<-ended
		synctest.Wait()
		if _, err := host.Discover(t.Context(), addr, cfg); err != nil {
			t.Errorf("after the end of the first: %v", err)
		}
	})
}
