package controller

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"softrdma/storage/nvmeof/wire/capsule"
	"softrdma/storage/nvmeof/wire/fabrics"
	"softrdma/storage/nvmeof/wire/format"
	"softrdma/storage/nvmeof/wire/identify"
	"softrdma/storage/nvmeof/wire/logpage"
	"softrdma/storage/nvmeof/wire/status"
)

// expect runs a command that must be refused.
func (e *end) expect(name string, cmd capsule.Command, data []byte, status status.Status, why Reason) {
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
	connect := func(queue, size uint16) capsule.Command {
		return fabrics.Connect{Queue: queue, QueueSize: size}.Command()
	}
	format := fabrics.Connect{Format: 1, QueueSize: 15}.Command()
	for _, x := range []struct {
		name   string
		queue  uint16
		cmd    capsule.Command
		data   []byte
		status status.Status
		why    Reason
	}{
		{"wrong NQN", 0, connect(0, 15), connectData(fabrics.AnyController, "nqn.wrong", host), status.ConnectInvalid, SubsystemUnknown},
		{"host not allowed", 0, connect(0, 15), connectData(fabrics.AnyController, nqn, "nqn.stranger"), status.ConnectHost, HostNotAllowed},
		{"static controller", 0, connect(0, 15), connectData(5, nqn, host), status.ConnectInvalid, ControllerUnknown},
		{"format", 0, format, connectData(fabrics.AnyController, nqn, host), status.ConnectFormat, ConnectFormat},
		{"size 0", 0, connect(0, 0), connectData(fabrics.AnyController, nqn, host), status.ConnectInvalid, QueueSize},
		{"oversized queue", 0, connect(0, 16), connectData(fabrics.AnyController, nqn, host), status.ConnectInvalid, QueueSize},
		{"another queue than requested", 2, connect(3, 15), connectData(id, nqn, host), status.ConnectInvalid, QueueUnknown},
		{"unknown controller", 2, connect(2, 15), connectData(id+1, nqn, host), status.ConnectInvalid, ControllerUnknown},
		{"queue in use", 1, connect(1, 15), connectData(id, nqn, host), status.SequenceError, QueueInUse},
		{"short data", 0, connect(0, 15), make([]byte, 512), status.SGLDataLength, SGLLength},
		{"another command", 0, identifyCommand(identify.CNSController, 0), make([]byte, 4096), status.SequenceError, NotConnected},
	} {
		r.queue(x.queue).expect(x.name, x.cmd, x.data, x.status, x.why)
	}
	// Another host must not reach the controller.
	other := fabrics.ConnectData{HostID: [16]byte{2}, Controller: id, Subsystem: nqn, Host: host}
	r.queue(2).expect("another host's controller", connect(2, 15), other.Append(nil), status.ConnectInvalid, ControllerUnknown)
	d, discovery := r.admin(logpage.DiscoveryNQN)
	r.queue(2).expect("I/O queue of discovery", connect(2, 15), connectData(discovery, logpage.DiscoveryNQN, host), status.ConnectInvalid, QueueUnknown)
	d.expect("twice", connect(0, 15), connectData(fabrics.AnyController, nqn, host), status.SequenceError, AlreadyConnected)
	if r.subs.Controllers() != 2 {
		t.Errorf("refused connects left %d controllers", r.subs.Controllers())
	}
}

// TestConnectsAtOnceMakeOneController: a host sends its second connect command before the data of the
// first has arrived.
func TestConnectsAtOnceMakeOneController(t *testing.T) {
	r := newRig(t)
	e := r.queue(0)
	data := connectData(fabrics.AnyController, nqn, host)
	var commands [2]Command
	for i := range commands {
		cmd := fabrics.Connect{QueueSize: 15}.Command()
		cmd.ID, cmd.SGL = uint16(i), capsule.KeyedSGL(0x1000, 7, uint32(len(data)), false)
		if err := e.Begin(e.now, &commands[i], cmd.Append(nil)); err != nil {
			t.Fatal(err)
		}
	}
	if done, _, c := e.go1(&commands[0], data); done.Status != status.Success {
		t.Errorf("the first connect: %v", c.Refusal)
	}
	if done, _, c := e.go1(&commands[1], data); done.Status.Code() != status.SequenceError || c.Refusal.Why != AlreadyConnected {
		t.Errorf("the second connect: expected %v, found %v, %v", AlreadyConnected, done.Status, c.Refusal)
	}
	e.Close()
	if n := r.subs.Controllers(); n != 0 {
		t.Errorf("expected no controller without its queue, found %d", n)
	}
}

func TestRequestRejections(t *testing.T) {
	r := newRig(t)
	for _, x := range []struct {
		private []byte
		want    fabrics.Reject
	}{
		{fabrics.Request{HostReceives: 32, HostSends: 31}.Append(nil), 0},
		{nil, fabrics.RejectLength},
		{make([]byte, 56), fabrics.RejectLength},
		{fabrics.Request{Format: 1, HostReceives: 32, HostSends: 31}.Append(nil), fabrics.RejectFormat},
		{fabrics.Request{Queue: 5, HostReceives: 16, HostSends: 15}.Append(nil), fabrics.RejectQueue},
		{fabrics.Request{HostReceives: 32, HostSends: 32}.Append(nil), fabrics.RejectHostSends},
		{fabrics.Request{Queue: 1, HostReceives: 16, HostSends: 16}.Append(nil), fabrics.RejectHostSends},
		{fabrics.Request{Queue: 1, HostReceives: 16}.Append(nil), fabrics.RejectHostSends},
		{fabrics.Request{Queue: 1, HostSends: 15}.Append(nil), fabrics.RejectHostReceive},
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
	with := func(c capsule.Command, s capsule.SGL) capsule.Command { c.SGL = s; return c }
	read := blocks(capsule.Read, 1, 0, 1)
	otherSet := identifyCommand(identify.CNSCommandSetActive, 0)
	otherSet.CDW11 = 2 << 24 // zoned namespaces
	saved := capsule.Command{Opcode: capsule.AdminSetFeatures, CDW10: uint32(capsule.FeatureAsyncEvents) | 1<<31}
	trim := capsule.Command{Opcode: capsule.DatasetManagement, NSID: 1, CDW11: capsule.DSMDeallocate}
	for _, x := range []struct {
		name   string
		q      *end
		cmd    capsule.Command
		data   []byte
		status status.Status
		why    Reason
	}{
		{"unknown opcode", q, capsule.Command{Opcode: 0x55}, nil, status.InvalidOpcode, OpcodeUnknown},
		{"unknown admin opcode", a, capsule.Command{Opcode: 0x55}, nil, status.InvalidOpcode, OpcodeUnknown},
		{"unknown fabrics command", a, capsule.Command{Opcode: capsule.OpFabrics, NSID: 0x33}, nil, status.InvalidOpcode, OpcodeUnknown},
		{"property of an I/O queue", q, fabrics.PropertyAccess{Property: fabrics.PropertyCC}.Command(false), nil, status.InvalidOpcode, OpcodeUnknown},
		{"unknown namespace", q, blocks(capsule.Read, 2, 0, 1), make([]byte, 512), status.InvalidNamespace, NamespaceUnknown},
		{"flush of all namespaces", q, blocks(capsule.Flush, capsule.AllNamespaces, 0, 1), nil, status.InvalidNamespace, NamespaceUnknown},
		{"namespace too small", q, blocks(capsule.Read, 1, 2040, 16), make([]byte, 8192), status.LBARange, BlocksOutOfRange},
		{"first block beyond the end", q, blocks(capsule.Read, 1, 2048, 1), make([]byte, 512), status.LBARange, BlocksOutOfRange},
		{"last block wraps", q, blocks(capsule.WriteZeroes, 1, 1<<64-1, 2), nil, status.LBARange, BlocksOutOfRange},
		{"range beyond the end", q, trim, capsule.Range{LBA: 2047, Blocks: 2}.Append(nil), status.LBARange, BlocksOutOfRange},
		{"write protected", q, blocks(capsule.Write, 3, 0, 1), make([]byte, 4096), status.WriteProtected, NamespaceProtected},
		{"more than a transfer", q, with(blocks(capsule.Read, 1, 0, 4096), capsule.KeyedSGL(1, 1, 2<<20, false)), nil, status.InvalidField, TransferTooLong},
		{"SGL too short", q, with(read, capsule.KeyedSGL(1, 1, 511, false)), nil, status.SGLDataLength, SGLLength},
		{"SGL too long", q, with(read, capsule.KeyedSGL(1, 1, 513, false)), nil, status.SGLDataLength, SGLLength},
		{"SGL without data", q, with(blocks(capsule.Flush, 1, 0, 1), capsule.KeyedSGL(1, 1, 8, false)), nil, status.SGLDataLength, SGLLength},
		{"SGL out of the capsule", q, with(blocks(capsule.Write, 1, 0, 1), capsule.OffsetSGL(0, 512)), nil, status.SGLOffset, SGLBounds},
		{"SGL offset wraps", q, with(blocks(capsule.Write, 1, 0, 1), capsule.OffsetSGL(1<<64-256, 512)), nil, status.SGLOffset, SGLBounds},
		{"read into the capsule", q, with(read, capsule.OffsetSGL(0, 512)), nil, status.SGLType, SGLType},
		{"unknown SGL type", q, with(read, capsule.SGL{Kind: 0x30, Length: 512}), nil, status.SGLType, SGLType},
		{"fused", q, capsule.Command{Opcode: capsule.Read, Flags: 1}, nil, status.InvalidField, FieldValue},
		{"unknown log page", a, logpage.Command(0xbb, 0, 4096), make([]byte, 4096), status.InvalidLogPage, LogPageUnknown},
		{"log page offset", a, logpage.Command(logpage.Health, 516, 512), make([]byte, 512), status.InvalidField, FieldValue},
		{"unknown feature", a, capsule.Command{Opcode: capsule.AdminGetFeatures, CDW10: 2}, nil, status.InvalidField, FeatureUnknown},
		{"unknown event", a, capsule.Command{Opcode: capsule.AdminSetFeatures, CDW10: uint32(capsule.FeatureAsyncEvents), CDW11: 1}, nil, status.InvalidField, FieldValue},
		{"unknown structure", a, identifyCommand(0x55, 1), make([]byte, 4096), status.InvalidField, FieldValue},
		{"unknown structure of no namespace", a, identifyCommand(0x55, 0), make([]byte, 4096), status.InvalidField, FieldValue},
		{"namespaces of another command set", a, otherSet, make([]byte, 4096), status.InvalidField, FieldValue},
		{"a feature that is to be saved", a, saved, nil, status.FeatureNotSaveable, FeatureUnknown},
		{"structure of no namespace", a, identifyCommand(identify.CNSDescriptors, 2), make([]byte, 4096), status.InvalidNamespace, NamespaceUnknown},
		{"unknown property", a, fabrics.PropertyAccess{Property: 0x99}.Command(false), nil, status.InvalidField, FieldValue},
		{"property that is read only", a, fabrics.PropertyAccess{Property: fabrics.PropertyVS}.Command(true), nil, status.InvalidField, FieldValue},
	} {
		x.q.expect(x.name, x.cmd, x.data, x.status, x.why)
	}
	for range 4 {
		a.run(capsule.Command{Opcode: capsule.AdminAsyncEvent}, nil)
	}
	a.expect("fifth event request", capsule.Command{Opcode: capsule.AdminAsyncEvent}, nil, status.AsyncEventLimit, EventLimit)
	_, b := a.must(logpage.Command(logpage.Error, 0, 64), make([]byte, 64))
	if e, err := logpage.ParseErrorEntry(b); err != nil || e.Status.Code() != status.AsyncEventLimit || e.Count < 16 {
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
	if done := a.Complete(c, nil); done.ID != 0x1234 || done.Status.Code() != status.InvalidField || c.Refusal.Why != CapsuleShort {
		t.Errorf("got %+v, %v", done, c.Refusal)
	}
	var short *format.Error
	if err := a.Begin(r.now, c, []byte{6, 0x40}); !errors.Is(err, ErrEnd) || !errors.As(err, &short) {
		t.Errorf("got %v", err)
	}
}

func TestCommandIdentifierIsUsedOnce(t *testing.T) {
	r := newRig(t)
	_, id := r.admin(nqn)
	q := r.io(id, 1)
	cmd := blocks(capsule.Flush, 1, 0, 1)
	cmd.ID, cmd.SGL = 50, capsule.KeyedSGL(0, 0, 0, false)
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
		if seen[r.String()] || r.Sentence() == "" || strings.Contains(r.Sentence(), "%") || r.Status() == status.Success {
			t.Errorf("reason %d: %v, %q, %v", r, r, r.Sentence(), r.Status())
		}
		seen[r.String()] = true
	}
}

// FuzzQueue checks that no capsule breaks the machine, and that what a command returns to the host does not
// depend on what was in the buffer before.
func FuzzQueue(f *testing.F) {
	cmd := identifyCommand(identify.CNSController, 0)
	f.Add(false, cmd.Append(nil), []byte{1})
	cmd = blocks(capsule.Read, 1, 0, 1)
	f.Add(true, cmd.Append(nil), []byte{1})
	for _, cmd := range returning() {
		f.Add(false, cmd.Append(nil), []byte{1})
	}
	f.Fuzz(func(t *testing.T, io bool, capsule, data []byte) {
		first, second := executed(t, io, capsule, data, 0), executed(t, io, capsule, data, 0xff)
		if !bytes.Equal(first, second) {
			t.Errorf("the host gets what was in the buffer: %x, %x", first, second)
		}
	})
}

// returning returns admin commands that return data, of lengths that are not those of their pages.
func returning() (all []capsule.Command) {
	for _, p := range []logpage.Page{logpage.Error, logpage.Health, logpage.Firmware, logpage.ChangedNamespaces, logpage.Effects, logpage.ANA} {
		for _, offset := range []uint64{0, 4, 64} {
			cmd := logpage.Command(p, offset, 8192+4)
			cmd.SGL = capsule.KeyedSGL(1, 1, 8192+4, false)
			all = append(all, cmd)
		}
	}
	for cns := range identify.CNS(0x20) {
		for nsid := range uint32(3) {
			cmd := identifyCommand(cns, nsid)
			cmd.SGL = capsule.KeyedSGL(1, 1, identify.Len, false)
			all = append(all, cmd)
		}
	}
	host := capsule.Command{Opcode: capsule.AdminGetFeatures, CDW10: uint32(capsule.FeatureHostID), CDW11: 1, SGL: capsule.KeyedSGL(1, 1, hostIDLen, false)}
	return append(all, host)
}

// TestReturnedDataIsTheCommandsOwn: buffers have what other hosts have read and written.
func TestReturnedDataIsTheCommandsOwn(t *testing.T) {
	returned := 0
	for _, cmd := range returning() {
		cmd.Flags = capsule.FlagSGL
		first, second := executed(t, false, cmd.Append(nil), nil, 0), executed(t, false, cmd.Append(nil), nil, 0xff)
		if !bytes.Equal(first, second) {
			t.Errorf("%+v returns what was in the buffer", cmd)
		}
		if len(first) > 0 {
			returned++
		}
	}
	if returned < 20 {
		t.Errorf("expected that most commands return data, found %d", returned)
	}
}

// executed executes the command of a capsule with a buffer that is full of a byte, and returns what the host
// gets.
func executed(t *testing.T, io bool, capsule, data []byte, full byte) []byte {
	t.Helper()
	r := newRig(t)
	q, id := r.admin(nqn)
	if io {
		q = r.io(id, 1)
	}
	c := new(Command)
	if q.Begin(r.now, c, capsule) != nil {
		return nil
	}
	var b []byte
	if c.State == Begun {
		if b = c.InCapsule(capsule); b == nil {
			b = bytes.Repeat([]byte{full}, int(c.Length))
			if c.Fetch() {
				clear(b)
				copy(b, data)
			}
		}
		q.Execute(r.now, c, b)
	}
	if c.State == Held {
		return nil
	}
	if c.State == Work && c.Access.Kind != TrimBlocks && c.Access.Offset+c.Access.Length > c.Access.Namespace.Size {
		t.Errorf("%+v lies outside", c.Access)
	}
	blocks := c.State == Work
	if done := q.Complete(c, nil); done.Status != status.Success && c.Refusal == nil {
		t.Errorf("%v without a reason", done.Status)
	}
	if blocks || !c.Return() {
		return nil // the backend fills the buffer, or nothing is returned
	}
	return b
}
