package controller

import (
	"bytes"
	"errors"
	"slices"
	"testing"
	"time"

	"softrdma/storage/nvmeof/wire"
)

func TestControllerIsConnectedAndIdentified(t *testing.T) {
	r := newRig(t)
	a, id := r.admin(nqn)
	status, _ := a.must(wire.PropertyAccess{Property: wire.PropertyCSTS}.Command(false), nil)
	if capabilities, _ := a.must(wire.PropertyAccess{Property: wire.PropertyCAP, Wide: true}.Command(false), nil); status != wire.StatusReady || capabilities&0xffff != 15 {
		t.Errorf("status %#x, capabilities %#x", status, capabilities)
	}
	_, b := a.must(identify(wire.CNSController, 0), make([]byte, wire.IdentifyLen))
	k, err := wire.ParseIdentifyController(b)
	if err != nil || k.Controller != id || k.Subsystem != nqn || k.MaxTransfer != 8 || k.CommandCapsule != 4+8192/16 || len(k.Serial) != 20 {
		t.Errorf("controller %+v, %v", k, err)
	}
	_, b = a.must(identify(wire.CNSActiveNamespaces, 0), make([]byte, wire.IdentifyLen))
	if ids := wire.ParseNamespaces(b); !slices.Equal(ids, []uint32{1, 3}) {
		t.Errorf("namespaces %v", ids)
	}
	_, b = a.must(identify(wire.CNSNamespace, 3), make([]byte, wire.IdentifyLen))
	n, err := wire.ParseIdentifyNamespace(b)
	if err != nil || n.Blocks != 256 || n.BlockShift != 12 || n.Attributes != 1 || n.ANAGroup != 2 || n.NGUID == [16]byte{} {
		t.Errorf("namespace %+v, %v", n, err)
	}
	_, b = a.must(identify(wire.CNSDescriptors, 1), make([]byte, wire.IdentifyLen))
	if d, err := wire.ParseDescriptors(b); err != nil || d.UUID == [16]byte{} {
		t.Errorf("descriptors %+v, %v", d, err)
	}
	dirty := bytes.Repeat([]byte{0xff}, wire.IdentifyLen)
	_, b = a.must(identify(wire.CNSNamespace, 2), dirty)
	if !bytes.Equal(b, make([]byte, wire.IdentifyLen)) {
		t.Error("the structure of an inactive namespace is not zeros")
	}
	if n, _ := a.must(wire.Command{Opcode: wire.AdminSetFeatures, CDW10: uint32(wire.FeatureQueues), CDW11: 7<<16 | 7}, nil); n != 3<<16|3 {
		t.Errorf("queues %#x", n)
	}
}

// Identify must leave nothing of what was in the buffer before.
func TestStructuresFillTheirBuffer(t *testing.T) {
	r := newRig(t)
	a, _ := r.admin(nqn)
	for _, cmd := range []wire.Command{
		identify(wire.CNSController, 0), identify(wire.CNSActiveNamespaces, 0), identify(wire.CNSNamespace, 1), identify(wire.CNSDescriptors, 1),
		identify(wire.CNSIndependent, 1), identify(wire.CNSCommandSetNamespace, 1), identify(wire.CNSCommandSetController, 0),
		wire.LogCommand(wire.LogError, 0, 4096), wire.LogCommand(wire.LogHealth, 0, 4096), wire.LogCommand(wire.LogFirmware, 0, 4096),
		wire.LogCommand(wire.LogChangedNamespaces, 0, 4096), wire.LogCommand(wire.LogEffects, 0, 4096), wire.LogCommand(wire.LogANA, 0, 4096),
	} {
		_, zeros := a.must(cmd, make([]byte, wire.IdentifyLen))
		_, ones := a.must(cmd, bytes.Repeat([]byte{0xff}, wire.IdentifyLen))
		if !bytes.Equal(zeros, ones) {
			t.Errorf("%s %#x leaves bytes of the buffer", cmd.Opcode.Name(true), cmd.CDW10)
		}
	}
}

func TestCommandsNameTheirBlocks(t *testing.T) {
	r := newRig(t)
	_, id := r.admin(nqn)
	q := r.io(id, 1)
	_, _, c := q.run(blocks(wire.Read, 1, 8, 16), make([]byte, 8192))
	if a := c.Access; c.Refusal != nil || a.Kind != ReadBlocks || a.Extent != (Extent{4096, 8192}) || a.Namespace.ID != 1 || !c.Return() {
		t.Errorf("read: %+v", c)
	}
	write := blocks(wire.Write, 1, 2047, 1)
	write.CDW12 |= wire.ForceUnitAccess
	_, _, c = q.run(write, make([]byte, 512))
	if a := c.Access; a.Kind != WriteBlocks || a.Extent != (Extent{2047 * 512, 512}) || !a.Durable || c.Return() {
		t.Errorf("write: %+v", c)
	}
	ranges := wire.Range{LBA: 1, Blocks: 2}.Append(wire.Range{LBA: 4, Blocks: 8}.Append(nil))
	_, _, c = q.run(wire.Command{
		Opcode: wire.DatasetManagement, NSID: 1, CDW10: 1, CDW11: wire.DSMDeallocate, SGL: wire.KeyedSGL(1, 1, 4096, true),
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
	cmd := blocks(wire.Write, 1, 0, 1)
	cmd.SGL = wire.OffsetSGL(4, 512)
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
	connected, _, _ := q.run(wire.Connect{QueueSize: 3}.Command(), connectData(wire.AnyController, nqn, host))
	heads := []uint16{connected.SQHead}
	for range 4 {
		done, _, _ := q.run(wire.PropertyAccess{Property: wire.PropertyVS}.Command(false), nil)
		heads = append(heads, done.SQHead)
	}
	if want := []uint16{1, 2, 3, 0, 1}; !slices.Equal(heads, want) {
		t.Errorf("got heads %v, want %v", heads, want)
	}
}

func TestEventRequestIsHeldUntilNamespaceChanges(t *testing.T) {
	r := newRig(t)
	a, _ := r.admin(nqn)
	a.must(wire.Command{Opcode: wire.AdminSetFeatures, CDW10: uint32(wire.FeatureAsyncEvents), CDW11: wire.AskNamespaceChanged}, nil)
	_, _, c := a.run(wire.Command{Opcode: wire.AdminAsyncEvent}, nil)
	if c.State != Held {
		t.Fatal(c)
	}
	for _, id := range []uint32{9, 8} {
		if err := r.subs.AddNamespace(r.sub, &Namespace{ID: id, Size: 4096, Block: 512}); err != nil {
			t.Fatal(err)
		}
	}
	if len(a.held) != 1 || a.held[0].ID != c.ID || a.held[0].Result != uint64(wire.EventNamespaceChanged) {
		t.Fatalf("got %+v", a.held)
	}
	_, b := a.must(wire.LogCommand(wire.LogChangedNamespaces, 0, 4096), make([]byte, 4096))
	if ids := wire.ParseNamespaces(b); !slices.Equal(ids, []uint32{8, 9}) {
		t.Errorf("changed %v", ids)
	}
	if err := r.subs.RemoveNamespace(r.sub, 8); err != nil {
		t.Fatal(err)
	}
	a.run(wire.Command{Opcode: wire.AdminAsyncEvent}, nil)
	if len(a.held) != 2 {
		t.Errorf("got %+v, want the event that was raised before the request", a.held)
	}
}

func TestSilentHostExpires(t *testing.T) {
	r := newRig(t)
	a, id := r.admin(nqn)
	q := r.io(id, 1)
	r.now = start.Add(4 * time.Second)
	a.must(wire.Command{Opcode: wire.AdminKeepAlive}, nil)
	if ended := r.subs.Expire(start.Add(8 * time.Second)); ended != nil {
		t.Fatal("expired early")
	}
	if ended := r.subs.Expire(start.Add(10 * time.Second)); len(ended) != 2 || r.subs.Controllers() != 0 {
		t.Errorf("ended %d queues, %d controllers are left", len(ended), r.subs.Controllers())
	}
	if done, _, _ := q.run(blocks(wire.Flush, 1, 0, 1), nil); done.Status.Code() != wire.SequenceError {
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
	set := func(cc wire.Configuration) uint64 {
		a.must(wire.PropertyAccess{Property: wire.PropertyCC, Value: uint64(cc)}.Command(true), nil)
		status, _ := a.must(wire.PropertyAccess{Property: wire.PropertyCSTS}.Command(false), nil)
		return status
	}
	a.run(wire.Command{Opcode: wire.AdminAsyncEvent}, nil)
	if got := set(wire.EnabledConfiguration | wire.ShutdownNormal); got != wire.StatusShutdownComplete {
		t.Errorf("after shutdown: status %#x", got)
	}
	if got := set(0); got != 0 {
		t.Errorf("after reset: status %#x", got)
	}
	if done, _, _ := q.run(blocks(wire.Flush, 1, 0, 1), nil); done.Status.Code() != wire.SequenceError {
		t.Errorf("flush of a controller that is not ready: %v", done.Status)
	}
	if got := set(wire.EnabledConfiguration | 1<<7); got != wire.StatusFatal {
		t.Errorf("with pages of 8 KiB: status %#x", got)
	}
}

func TestStateOfGroupDecidesAccess(t *testing.T) {
	r := newRig(t)
	a, id := r.admin(nqn)
	q := r.io(id, 1)
	for state, want := range map[wire.ANAState]wire.Status{
		wire.ANAOptimized: wire.Success, wire.ANANonOptimized: wire.Success, wire.ANAStateNoAccess: wire.ANAInaccessible,
		wire.ANALost: wire.ANAPersistentLoss, wire.ANAStateChanging: wire.ANATransition,
	} {
		r.subs.SetState(r.sub, 1, state)
		done, _, _ := q.run(blocks(wire.Read, 1, 0, 1), make([]byte, 512))
		if done.Status.Code() != want {
			t.Errorf("state %d: got %v, want %v", state, done.Status, want)
		}
	}
	_, b := a.must(wire.LogCommand(wire.LogANA, 0, 4096), make([]byte, 4096))
	a.must(wire.LogCommand(wire.LogANA, 4096, 4096), make([]byte, 4096)) // as nvme-cli reads it
	if changes, groups, err := wire.ParseANA(b); err != nil || changes != 5 || len(groups) != 2 {
		t.Errorf("%d changes of %v, %v", changes, groups, err)
	}
}

func TestBackendErrorsHaveStatuses(t *testing.T) {
	r := newRig(t)
	_, id := r.admin(nqn)
	q := r.io(id, 1)
	chosen := &wire.StatusError{Status: wire.CapacityExceeded}
	for _, x := range []struct {
		o    wire.Opcode
		err  error
		want wire.Status
	}{{wire.Read, errors.New("torn"), wire.ReadError}, {wire.Write, errors.New("torn"), wire.WriteFault}, {wire.Write, chosen, wire.CapacityExceeded}} {
		cmd := blocks(x.o, 1, 0, 1)
		cmd.SGL, cmd.ID = wire.KeyedSGL(1, 1, 512, false), 77
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
	if err := r.subs.Add(&Subsystem{NQN: "nqn.other", Hosts: []string{"nqn.nobody"}}); err != nil {
		t.Fatal(err)
	}
	d, _ := r.admin(wire.DiscoveryNQN)
	_, b := d.must(wire.LogCommand(wire.LogDiscovery, 0, 4096), make([]byte, 4096))
	head, err := wire.ParseDiscoveryHead(b)
	if err != nil || head.Entries != 2 {
		t.Fatalf("got %+v, %v", head, err)
	}
	e, err := wire.ParseDiscoveryEntry(b[2048:])
	if err != nil || e.Subsystem != nqn || e.Type != wire.SubsystemNVM {
		t.Errorf("got %+v, %v", e, err)
	}
	d.must(wire.Command{Opcode: wire.AdminSetFeatures, CDW10: uint32(wire.FeatureAsyncEvents), CDW11: wire.AskDiscoveryChanged}, nil)
	d.run(wire.Command{Opcode: wire.AdminAsyncEvent}, nil)
	if err := r.subs.Add(&Subsystem{NQN: "nqn.new"}); err != nil || len(d.held) != 1 {
		t.Errorf("got events %+v, %v", d.held, err)
	}
}
