package wire

import (
	"bytes"
	"encoding/hex"
	"errors"
	"reflect"
	"strings"
	"testing"
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
	read := Command{Opcode: Read, Flags: FlagSGL, ID: 0x1234, NSID: 1, SGL: KeyedSGL(0x1122334455667788, 0xaabbccdd, 0x1000, true), CDW12: 7}
	read.SetLBA(0x100000002)
	connect := Connect{Queue: 1, QueueSize: 127, Attributes: ConnectNoFlowControl, KeepAlive: 5000}.Command()
	write := Command{Opcode: Write, Flags: FlagSGL, ID: 1, NSID: 1, SGL: OffsetSGL(0, 4096)}
	done := Completion{Result: 5, SQHead: 3, Queue: 1, ID: 0x1234, Status: InvalidField | DoNotRetry}
	completion := make([]byte, CompletionLen)
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
		{"request", Request{Queue: 1, HostReceives: 128, HostSends: 127}.Append(nil), "0000 0100 8000 7f00" + zeros(24)},
		{"reply", Reply{Receives: 128}.Append(nil), "0000 8000" + zeros(28)},
		{"rejection", RejectResources.Append(nil), "0000 0600"},
		{"range", Range{Blocks: 8, LBA: 16}.Append(nil), "00000000 08000000 1000000000000000"},
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
	c := IdentifyController{
		Serial: "s1", Model: "softrdma", Firmware: "1.0", MultiPath: 11, MaxTransfer: 8, Controller: 7, Version: 0x10400,
		Events: AskNamespaceChanged, Attributes: AttributeHostID128, Type: ControllerIO, AbortLimit: 3, EventLimit: 4, LogAttributes: 6,
		ErrorEntries: 63, KeepAliveGranularity: 10, ANATransition: 10, ANACapabilities: 31, ANAGroupMax: 4, ANAGroups: 3, MaxCommands: 128,
		Namespaces: 1024, MaxActive: 1024, Commands: CommandCompare, VolatileCache: 1, SGLs: SGLSupported | SGLOffsetSupported, Subsystem: "nqn.x",
		CommandCapsule: 260, ResponseCapsule: 1, CapsuleOffset: 0, MaxDescriptors: 1, FabricsCommands: 1,
	}
	got, err := ParseIdentifyController(c.Append(nil))
	check("controller", c, got, err)
	n := IdentifyNamespace{Blocks: 9, Capacity: 8, Used: 7, Features: 1, Sharing: 1, Deallocate: 9, ANAGroup: 2, Attributes: 1, NGUID: [16]byte{5}, EUI64: [8]byte{6}, BlockShift: 12}
	gotN, err := ParseIdentifyNamespace(n.Append(nil))
	check("namespace", n, gotN, err)
	d := Descriptors{[8]byte{1}, [16]byte{2}, [16]byte{3}, 0}
	gotD, err := ParseDescriptors(d.Append(nil))
	check("descriptors", d, gotD, err)
	e := DiscoveryEntry{1, 2, SubsystemNVM, 4, 5, AnyController, 32, 0, "4420", "nqn.x", "fe80::1", 1, ProviderRoCEv2, 1, 0xffff}
	gotE, err := ParseDiscoveryEntry(e.Append(nil))
	check("discovery entry", e, gotE, err)
	h := DiscoveryHead{3, 2}
	gotH, err := ParseDiscoveryHead(h.Append(nil))
	check("discovery head", h, gotH, err)
	l := ErrorEntry{1, 2, 3, LBARange | DoNotRetry, 40, 5, 6}
	gotL, err := ParseErrorEntry(l.Append(nil))
	check("error entry", l, gotL, err)
	k := ConnectData{[16]byte{9}, 5, "nqn.subsystem", "nqn.host"}
	gotK, err := ParseConnectData(k.Append(nil))
	check("connect data", k, gotK, err)
	groups := []ANAGroup{{1, 2, ANAOptimized, []uint32{1, 3}}, {2, 2, ANALost, nil}}
	changes, gotG, err := ParseANA(AppendANA(nil, 4, groups, false))
	check("ANA", groups, gotG, err)
	check("ANA changes", uint64(4), changes, nil)
	check("namespaces", []uint32{4, 9}, ParseNamespaces(AppendNamespaces(nil, []uint32{2, 4, 9}, 2)), nil)
	p := PropertyAccess{PropertyCC, false, uint64(EnabledConfiguration)}
	set := p.Command(true)
	check("property", p, set.Property(), nil)
	log := LogCommand(LogDiscovery, 1<<33, 0x50000)
	page, _, offset, length, _ := log.Log()
	check("log", []uint64{uint64(LogDiscovery), 1 << 33, 0x50000}, []uint64{uint64(page), offset, length}, nil)
}

func TestShortAndForeignStructuresAreNamed(t *testing.T) {
	name := strings.Repeat("n", MaxNQN+1)
	long := ConnectData{Host: name}
	for _, x := range []struct {
		parse func() error
		want  string
	}{
		{func() error { _, err := ParseCommand(make([]byte, 63)); return err }, "NVME_SHORT"},
		{func() error { _, err := ParseCompletion(make([]byte, 15)); return err }, "NVME_SHORT"},
		{func() error { _, err := ParseRequest(make([]byte, 31)); return err }, "NVME_SHORT"},
		{func() error { _, err := ParseRequest(Request{Format: 1}.Append(nil)); return err }, "NVME_FIELD"},
		{func() error { _, err := ParseReply(Reply{Format: 1}.Append(nil)); return err }, "NVME_FIELD"},
		{func() error { _, err := ParseReject([]byte{1, 0, 0, 0}); return err }, "NVME_FIELD"},
		{func() error { _, err := ParseConnectData(long.Append(nil)); return err }, "NVME_FIELD"},
		{func() error { _, err := ParseDescriptors([]byte{3, 16, 0, 0, 1}); return err }, "NVME_SHORT"},
		{func() error { _, _, err := ParseANA(append(make([]byte, 8), 1, 0, 0, 0, 0, 0, 0, 0)); return err }, "NVME_SHORT"},
	} {
		err := x.parse()
		var found *FormatError
		if !errors.As(err, &found) || found.Reason() != x.want {
			t.Errorf("got %v, want %s", err, x.want)
		}
	}
}

func TestNamesAreUnique(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range Statuses() {
		if seen[s.String()] || s.Text() == "" {
			t.Errorf("status %#x: name %q, text %q", uint16(s), s, s.Text())
		}
		seen[s.String()] = true
	}
	for _, r := range Rejects() {
		if seen[r.String()] || r.Text() == "" {
			t.Errorf("rejection %d: name %q, text %q", uint16(r), r, r.Text())
		}
		seen[r.String()] = true
	}
	if len(seen) != len(statusNames)+8 {
		t.Errorf("got %d names", len(seen))
	}
	if got := (InvalidField | DoNotRetry).String(); got != "NVME_SC_INVALID_FIELD" {
		t.Errorf("got %s", got)
	}
}

// FuzzParse checks that no parser fails otherwise than by an error, and that a command survives.
func FuzzParse(f *testing.F) {
	c := Connect{Queue: 1, QueueSize: 31}.Command()
	f.Add(c.Append(nil))
	f.Add(AppendANA(nil, 1, []ANAGroup{{1, 1, ANAOptimized, []uint32{1}}}, false))
	d := Descriptors{UUID: [16]byte{1}}
	f.Add(d.Append(nil)[:64])
	f.Fuzz(func(t *testing.T, b []byte) {
		if c, err := ParseCommand(b); err == nil {
			again, err := ParseCommand(c.Append(nil))
			if err != nil || again != c {
				t.Errorf("got %+v, want %+v, %v", again, c, err)
			}
			c.Log()
			c.Connect()
			c.Property()
		}
		_, _ = ParseCompletion(b)
		_, _ = ParseRequest(b)
		_, _ = ParseReply(b)
		_, _ = ParseReject(b)
		_, _ = ParseConnectData(b)
		_, _ = ParseRange(b)
		_, _ = ParseIdentifyController(b)
		_, _ = ParseIdentifyNamespace(b)
		ParseNamespaces(b)
		_, _ = ParseDescriptors(b)
		_, _ = ParseErrorEntry(b)
		_, _, _ = ParseANA(b)
		_, _ = ParseDiscoveryEntry(b)
		_, _ = ParseDiscoveryHead(b)
	})
}
