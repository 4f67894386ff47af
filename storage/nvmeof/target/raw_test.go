package target_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"softrdma/rdmacm"
	"softrdma/storage/nvmeof/host"
	"softrdma/storage/nvmeof/target"
	"softrdma/storage/nvmeof/wire/capsule"
	"softrdma/storage/nvmeof/wire/fabrics"
	"softrdma/storage/nvmeof/wire/identify"
	"softrdma/storage/nvmeof/wire/logpage"
	"softrdma/storage/nvmeof/wire/status"
	"softrdma/verbs"
)

// A raw host has an admin queue and does nothing by itself: no keep-alive, no event requests.
type raw struct {
	*rdmacm.Conn
	t    *testing.T
	cq   *verbs.CQ
	mr   *verbs.MR // data, completions
	next uint16
}

const rawData = 128 << 10

// newRaw connects without a connect command. The queue has a number of receives.
func newRaw(t *testing.T, s *simulation, receives int) *raw { return newRawQueue(t, s, 0, receives) }

func newRawQueue(t *testing.T, s *simulation, queue uint16, receives int) *raw {
	t.Helper()
	r := &raw{t: t}
	d := rdmacm.Dialer{Device: s.host.Device}
	e, err := d.Resolve(t.Context(), s.addr)
	if err != nil {
		t.Fatal(err)
	}
	pd, err := s.host.Device.AllocPD()
	if err != nil {
		t.Fatal(err)
	}
	if r.cq, err = s.host.Device.CreateCQ(verbs.CQConfig{Depth: 4 + receives}); err != nil {
		t.Fatal(err)
	}
	qp, err := e.CreateQP(pd, verbs.QPConfig{Type: verbs.RC, SendCQ: r.cq, MaxSend: 4, MaxRecv: max(receives, 1), MaxInline: capsule.CommandLen})
	if err != nil {
		t.Fatal(err)
	}
	memory := make([]byte, rawData+receives*capsule.CompletionLen)
	if r.mr, err = pd.RegisterMemory(memory, verbs.LocalWrite|verbs.RemoteRead|verbs.RemoteWrite); err != nil {
		t.Fatal(err)
	}
	for i := range receives {
		at := rawData + i*capsule.CompletionLen
		if err := qp.PostRecv(verbs.RecvWR{WRID: uint64(at), SGL: []verbs.SGE{r.mr.SGE(at, capsule.CompletionLen)}}); err != nil {
			t.Fatal(err)
		}
	}
	r.Conn, err = e.Connect(t.Context(), rdmacm.ConnParam{PrivateData: fabrics.Request{Queue: queue, HostReceives: 32, HostSends: 31}.Append(nil)})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// send sends a command with the length of its data.
func (r *raw) send(cmd capsule.Command, length int) {
	r.t.Helper()
	r.next++
	cmd.ID, cmd.Flags = r.next, capsule.FlagSGL
	cmd.SGL = capsule.KeyedSGL(r.mr.Addr(), r.mr.RKey(), uint32(length), false)
	if err := r.QP().PostSend(verbs.SendWR{Op: verbs.OpSend, Inline: cmd.Append(nil)}); err != nil {
		r.t.Fatal(err)
	}
}

// receive returns the next completion.
func (r *raw) receive() capsule.Completion {
	r.t.Helper()
	wc, err := r.cq.WaitOne(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	c, err := capsule.ParseCompletion(r.mr.Bytes()[wc.WRID:])
	if err != nil || c.Status != status.Success {
		r.t.Fatal(c, err)
	}
	return c
}

// run runs a command.
func (r *raw) run(cmd capsule.Command, length int) capsule.Completion {
	r.t.Helper()
	r.send(cmd, length)
	return r.receive()
}

// newRawHost connects an admin queue to the subsystem.
func newRawHost(t *testing.T, s *simulation, keepAlive time.Duration) *raw {
	t.Helper()
	r := newRaw(t, s, 16)
	r.enable(nqn, keepAlive)
	return r
}

// enable connects to a subsystem and enables the controller, whose identifier it returns. It takes two receives.
func (r *raw) enable(nqn string, keepAlive time.Duration) uint16 {
	r.t.Helper()
	data := fabrics.ConnectData{Controller: fabrics.AnyController, Subsystem: nqn, Host: host.DefaultNQN}
	copy(r.mr.Bytes(), data.Append(nil))
	c := r.run(fabrics.Connect{QueueSize: 31, KeepAlive: uint32(keepAlive.Milliseconds())}.Command(), fabrics.ConnectDataLen)
	r.run(fabrics.PropertyAccess{Property: fabrics.PropertyCC, Value: uint64(fabrics.EnabledConfiguration)}.Command(true), 0)
	return uint16(c.Result)
}

func (r *raw) end() {
	r.t.Helper()
	if err := r.Close(); err != nil {
		r.t.Error(err)
	}
}

func TestSilentHostEndsByItsKeepAliveTimeout(t *testing.T) {
	simulate(t, target.Config{}, func(t *testing.T, s *simulation) {
		s.subsystem(t, newMemory(t))
		r := newRawHost(t, s, 5*time.Second)
		time.Sleep(4 * time.Second)
		r.run(capsule.Command{Opcode: capsule.AdminKeepAlive}, 0)
		time.Sleep(4 * time.Second)
		select {
		case err := <-s.ended:
			t.Fatalf("4 s after a keep-alive command: %v", err)
		default:
		}
		var failed *status.Error
		if err := <-s.ended; !errors.As(err, &failed) || failed.Status != status.KeepAliveExpired {
			t.Errorf("the reason of the end is %v", err)
		}
		<-r.Done()
		if n := s.target.Counts(); n.EndedByExpiration != 1 || n.Controllers != 0 {
			t.Errorf("counts %+v", n)
		}
		r.end()
	})
}

func TestHostsAreToldOfChanges(t *testing.T) {
	simulate(t, target.Config{}, func(t *testing.T, s *simulation) {
		sub := s.subsystem(t, newMemory(t))
		r := newRawHost(t, s, 0)
		asked := uint32(logpage.AskNamespaceChanged | logpage.AskANAChanged)
		r.run(capsule.Command{Opcode: capsule.AdminSetFeatures, CDW10: uint32(capsule.FeatureAsyncEvents), CDW11: asked}, 0)
		event := func(change func(), want uint32) {
			t.Helper()
			r.send(capsule.Command{Opcode: capsule.AdminAsyncEvent}, 0)
			synctest.Wait() // the target holds the request
			id := r.next
			change()
			if c := r.receive(); c.ID != id || c.Result != uint64(want) {
				t.Errorf("expected event %#x for command %d, found %+v", want, id, c)
			}
		}
		changed := func(want uint32) {
			t.Helper()
			r.run(logpage.Command(logpage.ChangedNamespaces, 0, 4096), 4096)
			if ids := identify.ParseNamespaces(r.mr.Bytes()[:4096]); len(ids) != 1 || ids[0] != want {
				t.Errorf("changed namespaces: expected %d, found %v", want, ids)
			}
		}
		must := func(err error) {
			if err != nil {
				t.Error(err)
			}
		}
		event(func() { must(s.target.AddNamespace(sub, 7, newMemory(t), false)) }, logpage.EventNamespaceChanged)
		changed(7)
		event(func() { must(s.target.RemoveNamespace(sub, 1)) }, logpage.EventNamespaceChanged)
		changed(1)
		event(func() { s.target.Subsystems().SetState(sub, 1, logpage.ANAStateNoAccess) }, logpage.EventANAChanged)
		r.run(logpage.Command(logpage.ANA, 0, 4096), 4096)
		if _, groups, err := logpage.ParseANA(r.mr.Bytes()[:4096]); err != nil || len(groups) != 1 || groups[0].State != logpage.ANAStateNoAccess {
			t.Errorf("groups %+v, %v", groups, err)
		}
		r.end()
	})
}

// TestStateOfGroupDecidesCommands: the disk is there, and this path to it is not.
func TestStateOfGroupDecidesCommands(t *testing.T) {
	simulate(t, target.Config{}, func(t *testing.T, s *simulation) {
		sub := s.subsystem(t, newMemory(t))
		c, n := s.disk(t, 1)
		s.target.Subsystems().SetState(sub, 1, logpage.ANALost)
		var failed *status.Error
		if _, err := n.ReadAt(make([]byte, 512), 0); !errors.As(err, &failed) || failed.Status.Code() != status.ANAPersistentLoss {
			t.Errorf("expected %v, found %v", status.ANAPersistentLoss, err)
		}
		s.target.Subsystems().SetState(sub, 1, logpage.ANAOptimized)
		time.Sleep(time.Second) // the target tells the host
		if _, err := n.ReadAt(make([]byte, 512), 0); err != nil {
			t.Error(err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
}
