package controller

import (
	"errors"
	"strings"
	"testing"

	"softrdma/storage/nvmeof/wire"
)

// expect runs a command that must be refused.
func (e *end) expect(name string, cmd wire.Command, data []byte, status wire.Status, why Reason) {
	e.t.Helper()
	done, _, c := e.run(cmd, data)
	if done.Status.Code() != status || c.Refusal == nil || c.Refusal.Why != why || c.Return() {
		e.t.Errorf("%s: got %v, %v, want %v, %v", name, done.Status, c.Refusal, status, why)
	}
	if c.Refusal != nil && (strings.Contains(c.Refusal.Error(), "%!") || !strings.HasPrefix(c.Refusal.Error(), why.String())) {
		e.t.Errorf("%s: got %q", name, c.Refusal.Error())
	}
}

func TestConnectRefusals(t *testing.T) {
	r := newRig(t, host)
	_, id := r.admin(nqn)
	r.io(id, 1)
	connect := func(queue, size uint16) wire.Command { return wire.Connect{Queue: queue, QueueSize: size}.Command() }
	format := wire.Connect{Format: 1, QueueSize: 15}.Command()
	for _, x := range []struct {
		name   string
		queue  uint16
		cmd    wire.Command
		data   []byte
		status wire.Status
		why    Reason
	}{
		{"wrong NQN", 0, connect(0, 15), connectData(wire.AnyController, "nqn.wrong", host), wire.ConnectInvalid, SubsystemUnknown},
		{"host not allowed", 0, connect(0, 15), connectData(wire.AnyController, nqn, "nqn.stranger"), wire.ConnectHost, HostNotAllowed},
		{"static controller", 0, connect(0, 15), connectData(5, nqn, host), wire.ConnectInvalid, ControllerUnknown},
		{"format", 0, format, connectData(wire.AnyController, nqn, host), wire.ConnectFormat, ConnectFormat},
		{"size 0", 0, connect(0, 0), connectData(wire.AnyController, nqn, host), wire.ConnectInvalid, QueueSize},
		{"oversized queue", 0, connect(0, 16), connectData(wire.AnyController, nqn, host), wire.ConnectInvalid, QueueSize},
		{"another queue than requested", 2, connect(3, 15), connectData(id, nqn, host), wire.ConnectInvalid, QueueUnknown},
		{"unknown controller", 2, connect(2, 15), connectData(id+1, nqn, host), wire.ConnectInvalid, ControllerUnknown},
		{"queue in use", 1, connect(1, 15), connectData(id, nqn, host), wire.SequenceError, QueueInUse},
		{"short data", 0, connect(0, 15), make([]byte, 512), wire.SGLDataLength, SGLLength},
		{"another command", 0, identify(wire.CNSController, 0), make([]byte, 4096), wire.SequenceError, NotConnected},
	} {
		r.queue(x.queue).expect(x.name, x.cmd, x.data, x.status, x.why)
	}
	// Another host must not reach the controller.
	other := wire.ConnectData{HostID: [16]byte{2}, Controller: id, Subsystem: nqn, Host: host}
	r.queue(2).expect("another host's controller", connect(2, 15), other.Append(nil), wire.ConnectInvalid, ControllerUnknown)
	d, discovery := r.admin(wire.DiscoveryNQN)
	r.queue(2).expect("I/O queue of discovery", connect(2, 15), connectData(discovery, wire.DiscoveryNQN, host), wire.ConnectInvalid, QueueUnknown)
	d.expect("twice", connect(0, 15), connectData(wire.AnyController, nqn, host), wire.SequenceError, AlreadyConnected)
	if r.subs.Controllers() != 2 {
		t.Errorf("refused connects left %d controllers", r.subs.Controllers())
	}
}

func TestRequestRejections(t *testing.T) {
	r := newRig(t)
	for _, x := range []struct {
		private []byte
		want    wire.Reject
	}{
		{wire.Request{HostReceives: 32, HostSends: 31}.Append(nil), 0},
		{nil, wire.RejectLength},
		{make([]byte, 56), wire.RejectLength},
		{wire.Request{Format: 1, HostReceives: 32, HostSends: 31}.Append(nil), wire.RejectFormat},
		{wire.Request{Queue: 5, HostReceives: 16, HostSends: 15}.Append(nil), wire.RejectQueue},
		{wire.Request{HostReceives: 32, HostSends: 32}.Append(nil), wire.RejectHostSends},
		{wire.Request{Queue: 1, HostReceives: 16, HostSends: 16}.Append(nil), wire.RejectHostSends},
		{wire.Request{Queue: 1, HostReceives: 16}.Append(nil), wire.RejectHostSends},
		{wire.Request{Queue: 1, HostSends: 15}.Append(nil), wire.RejectHostReceive},
	} {
		if _, got := r.subs.CheckRequest(x.private); got != x.want {
			t.Errorf("%x: got %v, want %v", x.private, got, x.want)
		}
	}
}

func TestCommandRefusals(t *testing.T) {
	r := newRig(t)
	a, id := r.admin(nqn)
	q := r.io(id, 1)
	with := func(c wire.Command, s wire.SGL) wire.Command { c.SGL = s; return c }
	read := blocks(wire.Read, 1, 0, 1)
	trim := wire.Command{Opcode: wire.DatasetManagement, NSID: 1, CDW11: wire.DSMDeallocate}
	for _, x := range []struct {
		name   string
		q      *end
		cmd    wire.Command
		data   []byte
		status wire.Status
		why    Reason
	}{
		{"unknown opcode", q, wire.Command{Opcode: 0x55}, nil, wire.InvalidOpcode, OpcodeUnknown},
		{"unknown admin opcode", a, wire.Command{Opcode: 0x55}, nil, wire.InvalidOpcode, OpcodeUnknown},
		{"unknown fabrics command", a, wire.Command{Opcode: wire.OpFabrics, NSID: 0x33}, nil, wire.InvalidOpcode, OpcodeUnknown},
		{"property of an I/O queue", q, wire.PropertyAccess{Property: wire.PropertyCC}.Command(false), nil, wire.InvalidOpcode, OpcodeUnknown},
		{"unknown namespace", q, blocks(wire.Read, 2, 0, 1), make([]byte, 512), wire.InvalidNamespace, NamespaceUnknown},
		{"flush of all namespaces", q, blocks(wire.Flush, wire.AllNamespaces, 0, 1), nil, wire.InvalidNamespace, NamespaceUnknown},
		{"namespace too small", q, blocks(wire.Read, 1, 2040, 16), make([]byte, 8192), wire.LBARange, BlocksOutOfRange},
		{"first block beyond the end", q, blocks(wire.Read, 1, 2048, 1), make([]byte, 512), wire.LBARange, BlocksOutOfRange},
		{"last block wraps", q, blocks(wire.WriteZeroes, 1, 1<<64-1, 2), nil, wire.LBARange, BlocksOutOfRange},
		{"range beyond the end", q, trim, wire.Range{LBA: 2047, Blocks: 2}.Append(nil), wire.LBARange, BlocksOutOfRange},
		{"write protected", q, blocks(wire.Write, 3, 0, 1), make([]byte, 4096), wire.WriteProtected, NamespaceProtected},
		{"more than a transfer", q, with(blocks(wire.Read, 1, 0, 4096), wire.KeyedSGL(1, 1, 2<<20, false)), nil, wire.InvalidField, TransferTooLong},
		{"SGL too short", q, with(read, wire.KeyedSGL(1, 1, 511, false)), nil, wire.SGLDataLength, SGLLength},
		{"SGL too long", q, with(read, wire.KeyedSGL(1, 1, 513, false)), nil, wire.SGLDataLength, SGLLength},
		{"SGL without data", q, with(blocks(wire.Flush, 1, 0, 1), wire.KeyedSGL(1, 1, 8, false)), nil, wire.SGLDataLength, SGLLength},
		{"SGL out of the capsule", q, with(blocks(wire.Write, 1, 0, 1), wire.OffsetSGL(0, 512)), nil, wire.SGLOffsetStatus, SGLBounds},
		{"SGL offset wraps", q, with(blocks(wire.Write, 1, 0, 1), wire.OffsetSGL(1<<64-256, 512)), nil, wire.SGLOffsetStatus, SGLBounds},
		{"read into the capsule", q, with(read, wire.OffsetSGL(0, 512)), nil, wire.SGLType, SGLType},
		{"unknown SGL type", q, with(read, wire.SGL{Kind: 0x30, Length: 512}), nil, wire.SGLType, SGLType},
		{"fused", q, wire.Command{Opcode: wire.Read, Flags: 1}, nil, wire.InvalidField, FieldValue},
		{"unknown log page", a, wire.LogCommand(0xbb, 0, 4096), make([]byte, 4096), wire.InvalidLogPage, LogPageUnknown},
		{"log page offset", a, wire.LogCommand(wire.LogHealth, 516, 512), make([]byte, 512), wire.InvalidField, FieldValue},
		{"unknown feature", a, wire.Command{Opcode: wire.AdminGetFeatures, CDW10: 2}, nil, wire.InvalidField, FeatureUnknown},
		{"unknown event", a, wire.Command{Opcode: wire.AdminSetFeatures, CDW10: uint32(wire.FeatureAsyncEvents), CDW11: 1}, nil, wire.InvalidField, FieldValue},
		{"unknown structure", a, identify(0x55, 1), make([]byte, 4096), wire.InvalidField, FieldValue},
		{"structure of no namespace", a, identify(wire.CNSDescriptors, 2), make([]byte, 4096), wire.InvalidNamespace, NamespaceUnknown},
		{"unknown property", a, wire.PropertyAccess{Property: 0x99}.Command(false), nil, wire.InvalidField, FieldValue},
		{"property that is read only", a, wire.PropertyAccess{Property: wire.PropertyVS}.Command(true), nil, wire.InvalidField, FieldValue},
	} {
		x.q.expect(x.name, x.cmd, x.data, x.status, x.why)
	}
	for range 4 {
		a.run(wire.Command{Opcode: wire.AdminAsyncEvent}, nil)
	}
	a.expect("fifth event request", wire.Command{Opcode: wire.AdminAsyncEvent}, nil, wire.AsyncEventLimit, EventLimit)
	_, b := a.must(wire.LogCommand(wire.LogError, 0, 64), make([]byte, 64))
	if e, err := wire.ParseErrorEntry(b); err != nil || e.Status.Code() != wire.AsyncEventLimit || e.Count < 16 {
		t.Errorf("error log: %+v, %v", e, err)
	}
}

func TestShortCapsuleIsAnsweredIfItHasAnIdentifier(t *testing.T) {
	r := newRig(t)
	a, _ := r.admin(nqn)
	c := new(Command)
	if err := a.Begin(r.now, c, []byte{6, 0x40, 0x34, 0x12, 0}); err != nil {
		t.Fatal(err)
	}
	if done := a.Complete(c, nil); done.ID != 0x1234 || done.Status.Code() != wire.InvalidField || c.Refusal.Why != CapsuleShort {
		t.Errorf("got %+v, %v", done, c.Refusal)
	}
	var short *wire.FormatError
	if err := a.Begin(r.now, c, []byte{6, 0x40}); !errors.Is(err, ErrEnd) || !errors.As(err, &short) {
		t.Errorf("got %v", err)
	}
}

func TestCommandIdentifierIsUsedOnce(t *testing.T) {
	r := newRig(t)
	_, id := r.admin(nqn)
	q := r.io(id, 1)
	cmd := blocks(wire.Flush, 1, 0, 1)
	cmd.ID, cmd.SGL = 50, wire.KeyedSGL(0, 0, 0, false)
	var first, second, third Command
	for i, x := range []struct {
		c    *Command
		want *Refusal
	}{{&first, nil}, {&second, refuse(CommandIDInUse, 0, 50)}} {
		if err := q.Begin(r.now, x.c, cmd.Append(nil)); err != nil || (x.c.Refusal == nil) != (x.want == nil) {
			t.Fatalf("%d: %v, %v", i, err, x.c.Refusal)
		}
	}
	q.Complete(&second, nil)
	q.Execute(r.now, &first, nil)
	q.Complete(&first, nil)
	if err := q.Begin(r.now, &third, cmd.Append(nil)); err != nil || third.Refusal != nil {
		t.Errorf("after the first: %v, %v", err, third.Refusal)
	}
}

func TestReasonsHaveNames(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range Reasons() {
		if seen[r.String()] || r.Sentence() == "" || strings.Contains(r.Sentence(), "%") || r.Status() == wire.Success {
			t.Errorf("reason %d: %v, %q, %v", r, r, r.Sentence(), r.Status())
		}
		seen[r.String()] = true
	}
}

// FuzzQueue checks that no capsule breaks the machine.
func FuzzQueue(f *testing.F) {
	cmd := identify(wire.CNSController, 0)
	f.Add(false, cmd.Append(nil), []byte{1})
	cmd = blocks(wire.Read, 1, 0, 1)
	f.Add(true, cmd.Append(nil), []byte{1})
	f.Fuzz(func(t *testing.T, io bool, capsule, data []byte) {
		r := newRig(t)
		q, id := r.admin(nqn)
		if io {
			q = r.io(id, 1)
		}
		c := new(Command)
		if q.Begin(r.now, c, capsule) != nil {
			return
		}
		if c.State == Begun {
			b := c.InCapsule(capsule)
			if b == nil {
				b = make([]byte, c.Length)
				copy(b, data)
			}
			q.Execute(r.now, c, b)
		}
		if c.State == Held {
			return
		}
		if c.State == Work && c.Access.Kind != TrimBlocks && c.Access.Offset+c.Access.Length > c.Access.Namespace.Size {
			t.Errorf("%+v lies outside", c.Access)
		}
		if done := q.Complete(c, nil); done.Status != wire.Success && c.Refusal == nil {
			t.Errorf("%v without a reason", done.Status)
		}
	})
}
