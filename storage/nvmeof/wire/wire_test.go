package wire_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"reflect"
	"strings"
	"testing"

	"softrdma/storage/nvmeof/wire/capsule"
	"softrdma/storage/nvmeof/wire/fabrics"
	"softrdma/storage/nvmeof/wire/format"
	"softrdma/storage/nvmeof/wire/identify"
	"softrdma/storage/nvmeof/wire/logpage"
	"softrdma/storage/nvmeof/wire/reserve"
	"softrdma/storage/nvmeof/wire/status"
)

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// The bytes are those of the published structures: RDMA transport 1.0 and base 2.0.
func TestEntriesHavePublishedBytes(t *testing.T) {
	read := capsule.Command{Opcode: capsule.Read, Flags: capsule.FlagSGL, ID: 0x1234, NSID: 1, SGL: capsule.KeyedSGL(0x1122334455667788, 0xaabbccdd, 0x1000, true), CDW12: 7}
	read.SetLBA(0x100000002)
	connect := fabrics.Connect{Queue: 1, QueueSize: 127, Attributes: fabrics.ConnectNoFlowControl, KeepAlive: 5000}.Command()
	write := capsule.Command{Opcode: capsule.Write, Flags: capsule.FlagSGL, ID: 1, NSID: 1, SGL: capsule.OffsetSGL(0, 4096)}
	done := capsule.Completion{Result: 5, SQHead: 3, Queue: 1, ID: 0x1234, Status: status.InvalidField | status.DoNotRetry}
	completion := make([]byte, capsule.CompletionLen)
	done.Put(completion)
	zeros := func(n int) string { return strings.Repeat("00", n) }
	for _, x := range []struct {
		name string
		got  []byte
		want string
	}{
		{"read", read.Append(nil), "02403412 01000000" + zeros(16) + "8877665544332211 001000 ddccbbaa 4f 02000000 01000000 07000000" + zeros(12)},
		{"connect", connect.Append(nil), "7f400000 01" + zeros(35) + "0000 0100 7f00 04 00 88130000" + zeros(12)},
		{"write in the capsule", write.Append(nil), "01400100 01000000" + zeros(16) + "0000000000000000 00100000 000000 01" + zeros(24)},
		{"completion", completion, "0500000000000000 0300 0100 3412 0480"},
		{"request", fabrics.Request{Queue: 1, HostReceives: 128, HostSends: 127}.Append(nil), "0000 0100 8000 7f00" + zeros(24)},
		{"reply", fabrics.Reply{Receives: 128}.Append(nil), "0000 8000" + zeros(28)},
		{"rejection", fabrics.RejectResources.Append(nil), "0000 0600"},
		{"range", capsule.Range{Blocks: 8, LBA: 16}.Append(nil), "00000000 08000000 1000000000000000"},
	} {
		if want := unhex(t, x.want); !bytes.Equal(x.got, want) {
			t.Errorf("%s: got\n%x, want\n%x", x.name, x.got, want)
		}
	}
}

// What is appended must parse to the same.
func TestStructuresSurviveRoundTrip(t *testing.T) {
	check := func(name string, want, got any, err error) {
		t.Helper()
		if err != nil || !reflect.DeepEqual(want, got) {
			t.Errorf("%s: got %+v, %v, want %+v", name, got, err, want)
		}
	}
	c := identify.Controller{
		Serial: "s1", Model: "softrdma", Firmware: "1.0", MultiPath: 11, MaxTransfer: 8, Controller: 7, Version: 0x10400,
		Events: logpage.AskNamespaceChanged, Attributes: identify.AttributeHostID128, Type: identify.ControllerIO, AbortLimit: 3, EventLimit: 4, LogAttributes: 6,
		ErrorEntries: 63, KeepAliveGranularity: 10, ANATransition: 10, ANACapabilities: 31, ANAGroups: 3, MaxCommands: 128,
		Namespaces: 1024, MaxActive: 1024, Commands: identify.CommandCompare, VolatileCache: 1, SGLs: identify.SGLSupported | identify.SGLOffsetSupported, Subsystem: "nqn.x",
		CommandCapsule: 260, ResponseCapsule: 1, CapsuleOffset: 0, MaxDescriptors: 1, FabricsCommands: 1,
	}
	got, err := identify.ParseController(c.Append(nil))
	check("controller", c, got, err)
	n := identify.Namespace{Blocks: 9, Capacity: 8, Used: 7, Features: 1, Sharing: 1, Deallocate: 9, ANAGroup: 2, Attributes: 1, NGUID: [16]byte{5}, EUI64: [8]byte{6}, BlockShift: 12}
	gotN, err := identify.ParseNamespace(n.Append(nil))
	check("namespace", n, gotN, err)
	d := identify.Descriptors{EUI64: [8]byte{1}, NGUID: [16]byte{2}, UUID: [16]byte{3}}
	gotD, err := identify.ParseDescriptors(d.Append(nil))
	check("descriptors", d, gotD, err)
	e := logpage.DiscoveryEntry{
		Transport: 1, Family: 2, Type: logpage.SubsystemNVM, Requirements: 4, PortID: 5, Controller: fabrics.AnyController, AdminQueue: 32,
		Service: "4420", Subsystem: "nqn.x", Address: "fe80::1", RDMAService: 1, Provider: logpage.ProviderRoCEv2, Management: 1, PKey: 0xffff,
	}
	gotE, err := logpage.ParseDiscoveryEntry(e.Append(nil))
	check("discovery entry", e, gotE, err)
	h := logpage.DiscoveryHead{Generation: 3, Entries: 2}
	gotH, err := logpage.ParseDiscoveryHead(h.Append(nil))
	check("discovery head", h, gotH, err)
	l := logpage.ErrorEntry{Count: 1, Queue: 2, Command: 3, Status: status.LBARange | status.DoNotRetry, Location: 40, LBA: 5, NSID: 6}
	gotL, err := logpage.ParseErrorEntry(l.Append(nil))
	check("error entry", l, gotL, err)
	k := fabrics.ConnectData{HostID: [16]byte{9}, Controller: 5, Subsystem: "nqn.subsystem", Host: "nqn.host"}
	gotK, err := fabrics.ParseConnectData(k.Append(nil))
	check("connect data", k, gotK, err)
	groups := []logpage.ANAGroup{{ID: 1, Changes: 2, State: logpage.ANAOptimized, Namespaces: []uint32{1, 3}}, {ID: 2, Changes: 2, State: logpage.ANALost}}
	changes, gotG, err := logpage.ParseANA(logpage.AppendANA(nil, 4, groups, false))
	check("ANA", groups, gotG, err)
	check("ANA changes", uint64(4), changes, nil)
	check("namespaces", []uint32{4, 9}, identify.ParseNamespaces(identify.AppendNamespaces(nil, []uint32{2, 4, 9}, 2)), nil)
	p := fabrics.PropertyAccess{Property: fabrics.PropertyCC, Value: uint64(fabrics.EnabledConfiguration)}
	set := p.Command(true)
	check("property", p, fabrics.PropertyOf(&set), nil)
	log := logpage.Command(logpage.Discovery, 1<<33, 0x50000)
	page, _, offset, length, _ := logpage.Fields(&log)
	check("log", []uint64{uint64(logpage.Discovery), 1 << 33, 0x50000}, []uint64{uint64(page), offset, length}, nil)
}

func TestShortAndForeignStructuresAreNamed(t *testing.T) {
	name := strings.Repeat("n", fabrics.MaxNQN+1)
	long := fabrics.ConnectData{Host: name}
	for _, x := range []struct {
		parse func() error
		want  string
	}{
		{func() error { _, err := capsule.ParseCommand(make([]byte, 63)); return err }, "NVME_SHORT"},
		{func() error { _, err := capsule.ParseCompletion(make([]byte, 15)); return err }, "NVME_SHORT"},
		{func() error { _, err := fabrics.ParseRequest(make([]byte, 31)); return err }, "NVME_SHORT"},
		{func() error { _, err := fabrics.ParseRequest(fabrics.Request{Format: 1}.Append(nil)); return err }, "NVME_FIELD"},
		{func() error { _, err := fabrics.ParseReply(fabrics.Reply{Format: 1}.Append(nil)); return err }, "NVME_FIELD"},
		{func() error { _, err := fabrics.ParseReject([]byte{1, 0, 0, 0}); return err }, "NVME_FIELD"},
		{func() error { _, err := fabrics.ParseConnectData(long.Append(nil)); return err }, "NVME_FIELD"},
		{func() error {
			_, err := identify.ParseNamespace((&identify.Namespace{Blocks: 1<<55 + 1, BlockShift: 9}).Append(nil))
			return err
		}, "NVME_FIELD"},
		{func() error { _, err := identify.ParseDescriptors([]byte{3, 16, 0, 0, 1}); return err }, "NVME_SHORT"},
		{func() error {
			_, _, err := logpage.ParseANA(append(make([]byte, 8), 1, 0, 0, 0, 0, 0, 0, 0))
			return err
		}, "NVME_SHORT"},
	} {
		err := x.parse()
		var found *format.Error
		if !errors.As(err, &found) || found.Reason() != x.want {
			t.Errorf("got %v, want %s", err, x.want)
		}
	}
}

func TestNamesAreUnique(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range status.All() {
		if seen[s.String()] || s.Text() == "" {
			t.Errorf("status %#x: name %q, text %q", uint16(s), s, s.Text())
		}
		seen[s.String()] = true
	}
	for _, r := range fabrics.Rejects() {
		if seen[r.String()] || r.Text() == "" {
			t.Errorf("rejection %d: name %q, text %q", uint16(r), r, r.Text())
		}
		seen[r.String()] = true
	}
	if len(seen) != len(status.All())+8 {
		t.Errorf("got %d names", len(seen))
	}
	if got := (status.InvalidField | status.DoNotRetry).String(); got != "NVME_SC_INVALID_FIELD" {
		t.Errorf("got %s", got)
	}
}

// FuzzParse checks that no parser fails otherwise than by an error, and that a command survives.
func FuzzParse(f *testing.F) {
	c := fabrics.Connect{Queue: 1, QueueSize: 31}.Command()
	f.Add(c.Append(nil))
	f.Add(logpage.AppendANA(nil, 1, []logpage.ANAGroup{{ID: 1, Changes: 1, State: logpage.ANAOptimized, Namespaces: []uint32{1}}}, false))
	d := identify.Descriptors{UUID: [16]byte{1}}
	f.Add(d.Append(nil)[:64])
	f.Fuzz(func(t *testing.T, b []byte) {
		if c, err := capsule.ParseCommand(b); err == nil {
			again, err := capsule.ParseCommand(c.Append(nil))
			if err != nil || again != c {
				t.Errorf("got %+v, want %+v, %v", again, c, err)
			}
			logpage.Fields(&c)
			fabrics.ConnectOf(&c)
			fabrics.PropertyOf(&c)
		}
		_, _ = capsule.ParseCompletion(b)
		_, _ = fabrics.ParseRequest(b)
		_, _ = fabrics.ParseReply(b)
		_, _ = fabrics.ParseReject(b)
		_, _ = fabrics.ParseConnectData(b)
		_, _ = capsule.ParseRange(b)
		_, _ = identify.ParseController(b)
		_, _ = identify.ParseNamespace(b)
		identify.ParseNamespaces(b)
		_, _ = identify.ParseDescriptors(b)
		_, _ = logpage.ParseErrorEntry(b)
		_, _, _ = logpage.ParseANA(b)
		_, _ = logpage.ParseReservationEntry(b)
		_, _, _ = reserve.ReservationKeys(b)
		_, _ = logpage.ParseDiscoveryEntry(b)
		_, _ = logpage.ParseDiscoveryHead(b)
	})
}
