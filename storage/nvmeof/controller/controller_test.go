package controller

import (
	"bytes"
	"errors"
	"slices"
	"testing"
	"time"

	"softrdma/storage/nvmeof/wire/capsule"
	"softrdma/storage/nvmeof/wire/fabrics"
	"softrdma/storage/nvmeof/wire/identify"
	"softrdma/storage/nvmeof/wire/logpage"
	"softrdma/storage/nvmeof/wire/status"
)

func TestControllerIsConnectedAndIdentified(t *testing.T) {
	r := newRig(t)
	a, id := r.admin(nqn)
	status, _ := a.must(fabrics.PropertyAccess{Property: fabrics.PropertyCSTS}.Command(false), nil)
	if capabilities, _ := a.must(fabrics.PropertyAccess{Property: fabrics.PropertyCAP, Wide: true}.Command(false), nil); status != fabrics.StatusReady || capabilities&0xffff != 15 {
		t.Errorf("status %#x, capabilities %#x", status, capabilities)
	}
	_, b := a.must(identifyCommand(identify.CNSController, 0), make([]byte, identify.Len))
	k, err := identify.ParseController(b)
	if err != nil || k.Controller != id || k.Subsystem != nqn || k.MaxTransfer != 8 || k.CommandCapsule != 4+8192/16 || len(k.Serial) != 20 {
		t.Errorf("controller %+v, %v", k, err)
	}
	_, b = a.must(identifyCommand(identify.CNSActiveNamespaces, 0), make([]byte, identify.Len))
	if ids := identify.ParseNamespaces(b); !slices.Equal(ids, []uint32{1, 3}) {
		t.Errorf("namespaces %v", ids)
	}
	_, b = a.must(identifyCommand(identify.CNSNamespace, 3), make([]byte, identify.Len))
	n, err := identify.ParseNamespace(b)
	if err != nil || n.Blocks != 256 || n.BlockShift != 12 || n.Attributes != 1 || n.ANAGroup != 2 || n.NGUID == [16]byte{} {
		t.Errorf("namespace %+v, %v", n, err)
	}
	_, b = a.must(identifyCommand(identify.CNSDescriptors, 1), make([]byte, identify.Len))
	if d, err := identify.ParseDescriptors(b); err != nil || d.UUID == [16]byte{} {
		t.Errorf("descriptors %+v, %v", d, err)
	}
	dirty := bytes.Repeat([]byte{0xff}, identify.Len)
	_, b = a.must(identifyCommand(identify.CNSNamespace, 2), dirty)
	if !bytes.Equal(b, make([]byte, identify.Len)) {
		t.Error("the structure of an inactive namespace is not zeros")
	}
	if n, _ := a.must(capsule.Command{Opcode: capsule.AdminSetFeatures, CDW10: uint32(capsule.FeatureQueues), CDW11: 7<<16 | 7}, nil); n != 3<<16|3 {
		t.Errorf("queues %#x", n)
	}
}

// Identify must leave nothing of what was in the buffer before.
func TestStructuresFillTheirBuffer(t *testing.T) {
	r := newRig(t)
	a, _ := r.admin(nqn)
	for _, cmd := range []capsule.Command{
		identifyCommand(identify.CNSController, 0), identifyCommand(identify.CNSActiveNamespaces, 0), identifyCommand(identify.CNSNamespace, 1), identifyCommand(identify.CNSDescriptors, 1),
		identifyCommand(identify.CNSIndependent, 1), identifyCommand(identify.CNSCommandSetNamespace, 1), identifyCommand(identify.CNSCommandSetController, 0),
		identifyCommand(identify.CNSCommandSetActive, 0),
		logpage.Command(logpage.Error, 0, 4096), logpage.Command(logpage.Health, 0, 4096), logpage.Command(logpage.Firmware, 0, 4096),
		logpage.Command(logpage.ChangedNamespaces, 0, 4096), logpage.Command(logpage.Effects, 0, 4096), logpage.Command(logpage.ANA, 0, 4096),
	} {
		_, zeros := a.must(cmd, make([]byte, identify.Len))
		_, ones := a.must(cmd, bytes.Repeat([]byte{0xff}, identify.Len))
		if !bytes.Equal(zeros, ones) {
			t.Errorf("%s %#x leaves bytes of the buffer", cmd.Opcode.Name(true), cmd.CDW10)
		}
	}
}

func TestCommandsNameTheirBlocks(t *testing.T) {
	r := newRig(t)
	_, id := r.admin(nqn)
	q := r.io(id, 1)
	_, _, c := q.run(blocks(capsule.Read, 1, 8, 16), make([]byte, 8192))
	if a := c.Access; c.Refusal != nil || a.Kind != ReadBlocks || a.Extent != (Extent{4096, 8192}) || a.Namespace.ID != 1 || !c.Return() {
		t.Errorf("read: %+v", c)
	}
	write := blocks(capsule.Write, 1, 2047, 1)
	write.CDW12 |= capsule.ForceUnitAccess
	_, _, c = q.run(write, make([]byte, 512))
	if a := c.Access; a.Kind != WriteBlocks || a.Extent != (Extent{2047 * 512, 512}) || !a.Durable || c.Return() {
		t.Errorf("write: %+v", c)
	}
	ranges := capsule.Range{LBA: 1, Blocks: 2}.Append(capsule.Range{LBA: 4, Blocks: 8}.Append(nil))
	_, _, c = q.run(capsule.Command{
		Opcode: capsule.DatasetManagement, NSID: 1, CDW10: 1, CDW11: capsule.DSMDeallocate, SGL: capsule.KeyedSGL(1, 1, 4096, true),
	}, ranges)
	if want := []Extent{{2048, 4096}, {512, 1024}}; c.Length != 32 || !slices.Equal(c.Access.Extents, want) {
		t.Errorf("dataset management: %+v", c)
	}
	if traffic := r.subs.Traffic(r.sub); traffic != (Traffic{1, 1, 8192, 512}) {
		t.Errorf("traffic %+v", traffic)
	}
}

func TestDataInTheCapsuleIsUsed(t *testing.T) {
	r := newRig(t)
	_, id := r.admin(nqn)
	q := r.io(id, 1)
	cmd := blocks(capsule.Write, 1, 0, 1)
	cmd.SGL = capsule.OffsetSGL(4, 512)
	capsule := append(cmd.Append(nil), 9, 9, 9, 9)
	capsule = append(capsule, bytes.Repeat([]byte{5}, 512)...)
	c := new(Command)
	if err := q.Begin(r.now, c, capsule); err != nil || c.Refusal != nil || c.Fetch() {
		t.Fatal(err, c)
	}
	if data := c.InCapsule(capsule); !bytes.Equal(data, bytes.Repeat([]byte{5}, 512)) {
		t.Errorf("got %x", data)
	}
}

func TestHeadFollowsCompletions(t *testing.T) {
	r := newRig(t)
	q := r.queue(0)
	connected, _, _ := q.run(fabrics.Connect{QueueSize: 3}.Command(), connectData(fabrics.AnyController, nqn, host))
	heads := []uint16{connected.SQHead}
	for range 4 {
		done, _, _ := q.run(fabrics.PropertyAccess{Property: fabrics.PropertyVS}.Command(false), nil)
		heads = append(heads, done.SQHead)
	}
	if want := []uint16{1, 2, 3, 0, 1}; !slices.Equal(heads, want) {
		t.Errorf("got heads %v, want %v", heads, want)
	}
}

func TestEventRequestIsHeldUntilNamespaceChanges(t *testing.T) {
	r := newRig(t)
	a, _ := r.admin(nqn)
	a.must(capsule.Command{Opcode: capsule.AdminSetFeatures, CDW10: uint32(capsule.FeatureAsyncEvents), CDW11: logpage.AskNamespaceChanged}, nil)
	_, _, c := a.run(capsule.Command{Opcode: capsule.AdminAsyncEvent}, nil)
	if c.State != Held {
		t.Fatal(c)
	}
	for _, id := range []uint32{9, 8} {
		if err := r.subs.AddNamespace(r.sub, &Namespace{ID: id, Size: 4096, Block: 512}); err != nil {
			t.Fatal(err)
		}
	}
	if len(a.held) != 1 || a.held[0].ID != c.ID || a.held[0].Result != uint64(logpage.EventNamespaceChanged) {
		t.Fatalf("got %+v", a.held)
	}
	_, b := a.must(logpage.Command(logpage.ChangedNamespaces, 0, 4096), make([]byte, 4096))
	if ids := identify.ParseNamespaces(b); !slices.Equal(ids, []uint32{8, 9}) {
		t.Errorf("changed %v", ids)
	}
	if _, err := r.subs.RemoveNamespace(r.sub, 8); err != nil {
		t.Fatal(err)
	}
	a.run(capsule.Command{Opcode: capsule.AdminAsyncEvent}, nil)
	if len(a.held) != 2 {
		t.Errorf("got %+v, want the event that was raised before the request", a.held)
	}
}

func TestSilentHostExpires(t *testing.T) {
	r := newRig(t)
	a, id := r.admin(nqn)
	q := r.io(id, 1)
	r.now = start.Add(4 * time.Second)
	a.must(capsule.Command{Opcode: capsule.AdminKeepAlive}, nil)
	if ended := r.subs.Expire(start.Add(8 * time.Second)); ended != nil {
		t.Fatal("expired early")
	}
	if ended := r.subs.Expire(start.Add(10 * time.Second)); len(ended) != 2 || r.subs.Controllers() != 0 {
		t.Errorf("ended %d queues, %d controllers are left", len(ended), r.subs.Controllers())
	}
	if done, _, _ := q.run(blocks(capsule.Flush, 1, 0, 1), nil); done.Status.Code() != status.SequenceError {
		t.Errorf("got %v", done.Status)
	}
}

func TestAdminQueueEndsTheController(t *testing.T) {
	r := newRig(t)
	a, id := r.admin(nqn)
	q := r.io(id, 2)
	if ended := q.Close(); ended != nil {
		t.Errorf("an I/O queue ended %d queues", len(ended))
	}
	q = r.io(id, 2)
	if ended := a.Close(); !slices.Equal(ended, []*Queue{q.Queue}) || r.subs.Controllers() != 0 {
		t.Errorf("ended %v", ended)
	}
	q.Close()
	a.Close()
}

func TestResetAndShutdown(t *testing.T) {
	r := newRig(t)
	a, id := r.admin(nqn)
	q := r.io(id, 1)
	set := func(cc fabrics.Configuration) uint64 {
		a.must(fabrics.PropertyAccess{Property: fabrics.PropertyCC, Value: uint64(cc)}.Command(true), nil)
		status, _ := a.must(fabrics.PropertyAccess{Property: fabrics.PropertyCSTS}.Command(false), nil)
		return status
	}
	a.run(capsule.Command{Opcode: capsule.AdminAsyncEvent}, nil)
	if got := set(fabrics.EnabledConfiguration | fabrics.ShutdownNormal); got != fabrics.StatusShutdownComplete {
		t.Errorf("after shutdown: status %#x", got)
	}
	if got := set(0); got != 0 {
		t.Errorf("after reset: status %#x", got)
	}
	if done, _, _ := q.run(blocks(capsule.Flush, 1, 0, 1), nil); done.Status.Code() != status.SequenceError {
		t.Errorf("flush of a controller that is not ready: %v", done.Status)
	}
	if got := set(fabrics.EnabledConfiguration | 1<<7); got != fabrics.StatusFatal {
		t.Errorf("with pages of 8 KiB: status %#x", got)
	}
}

func TestStateOfGroupDecidesAccess(t *testing.T) {
	r := newRig(t)
	a, id := r.admin(nqn)
	q := r.io(id, 1)
	for state, want := range map[logpage.ANAState]status.Status{
		logpage.ANAOptimized: status.Success, logpage.ANANonOptimized: status.Success, logpage.ANAStateNoAccess: status.ANAInaccessible,
		logpage.ANALost: status.ANAPersistentLoss, logpage.ANAStateChanging: status.ANATransition,
	} {
		r.subs.SetState(r.sub, 1, state)
		done, _, _ := q.run(blocks(capsule.Read, 1, 0, 1), make([]byte, 512))
		if done.Status.Code() != want {
			t.Errorf("state %d: got %v, want %v", state, done.Status, want)
		}
	}
	_, b := a.must(logpage.Command(logpage.ANA, 0, 4096), make([]byte, 4096))
	a.must(logpage.Command(logpage.ANA, 4096, 4096), make([]byte, 4096)) // as nvme-cli reads it
	if changes, groups, err := logpage.ParseANA(b); err != nil || changes != 5 || len(groups) != 2 {
		t.Errorf("%d changes of %v, %v", changes, groups, err)
	}
}

func TestBackendErrorsHaveStatuses(t *testing.T) {
	r := newRig(t)
	_, id := r.admin(nqn)
	q := r.io(id, 1)
	chosen := &status.Error{Status: status.CapacityExceeded}
	for _, x := range []struct {
		o    capsule.Opcode
		err  error
		want status.Status
	}{{capsule.Read, errors.New("torn"), status.ReadError}, {capsule.Write, errors.New("torn"), status.WriteFault}, {capsule.Write, chosen, status.CapacityExceeded}} {
		cmd := blocks(x.o, 1, 0, 1)
		cmd.SGL, cmd.ID = capsule.KeyedSGL(1, 1, 512, false), 77
		c := new(Command)
		if err := q.Begin(r.now, c, cmd.Append(nil)); err != nil {
			t.Fatal(err)
		}
		q.Execute(r.now, c, make([]byte, 512))
		if done := q.Complete(c, x.err); done.Status.Code() != x.want || !errors.Is(c.Refusal, x.err) || c.Return() {
			t.Errorf("%v: got %v, %v", x.err, done.Status, c.Refusal)
		}
	}
}

func TestDiscoveryNamesAllowedSubsystems(t *testing.T) {
	r := newRig(t, host)
	if err := r.subs.Add(&Subsystem{NQN: "other-of-linux", Hosts: []string{"nqn.nobody"}}); err != nil {
		t.Fatal(err)
	}
	d, _ := r.admin(logpage.DiscoveryNQN)
	_, b := d.must(logpage.Command(logpage.Discovery, 0, 4096), make([]byte, 4096))
	head, err := logpage.ParseDiscoveryHead(b)
	if err != nil || head.Entries != 2 {
		t.Fatalf("got %+v, %v", head, err)
	}
	e, err := logpage.ParseDiscoveryEntry(b[2048:])
	if err != nil || e.Subsystem != nqn || e.Type != logpage.SubsystemNVM {
		t.Errorf("got %+v, %v", e, err)
	}
	d.must(capsule.Command{Opcode: capsule.AdminSetFeatures, CDW10: uint32(capsule.FeatureAsyncEvents), CDW11: logpage.AskDiscoveryChanged}, nil)
	d.run(capsule.Command{Opcode: capsule.AdminAsyncEvent}, nil)
	if err := r.subs.Add(&Subsystem{NQN: "nqn.new"}); err != nil || len(d.held) != 1 {
		t.Errorf("got events %+v, %v", d.held, err)
	}
}

// TestLimitsThatHostsCannotBeTold: identify says in powers of two of 4,096 bytes how long a transfer may be,
// and 0 means any length.
func TestLimitsThatHostsCannotBeTold(t *testing.T) {
	for _, n := range []int{4096, 12288, 16 << 20} {
		if _, err := New(Limits{MaxTransfer: n}); err == nil {
			t.Errorf("transfers of at most %d bytes: expected an error", n)
		}
	}
}
