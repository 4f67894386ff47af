package rdmanl

import (
	"encoding/binary"
	"encoding/hex"
	"net/netip"
	"strings"
	"syscall"
	"testing"

	"softrdma/internal/object"
)

// fixed is a source with an object of each kind.
type fixed struct{ pairs int }

func (fixed) Devices() []Device {
	return []Device{{Name: "rxe0", NodeType: 1, Protocol: "roce", Caps: 0x1223c00, NodeGUID: 0x1234, SysImageGUID: 0x5678}}
}

func (fixed) Port(int) Port { return Port{State: 4, PhysState: 5, Interface: "lo", InterfaceIndex: 1} }

func (f fixed) Objects(int) *object.List {
	me := object.Owner{PID: 77, Context: 3}
	o := &object.List{
		Contexts: []object.Context{{Owner: me}},
		PDs:      []object.PD{{Owner: me, Number: 5, Users: 2}},
		CQs:      []object.CQ{{Owner: me, Number: 6, Depth: 63, Users: 2}},
		MRs:      []object.Region{{Owner: me, Number: 7, Kind: "mr", PD: 5, Key: 0x101, Length: 4096}, {Owner: me, Number: 8, Kind: "mw"}},
		SRQs:     []object.SRQ{{Owner: me, Number: 8, PD: 5, Users: 1}},
		IDs: []object.ID{{
			Owner: me, Number: 9, Type: "RC", State: "LISTEN", PortSpace: "TCP", Bound: true, Source: netip.MustParseAddrPort("127.0.0.1:7471"),
		}},
	}
	for i := range max(f.pairs, 1) {
		o.QPs = append(o.QPs, object.QP{Owner: me, Number: 17 + uint32(i), PD: 5, Type: "RC", State: "RTS", PeerQP: 18, RQPSN: 1, SQPSN: 2})
	}
	o.QPs[0].SRQ = 8
	return o
}

func (fixed) Statistics(int) []Statistic { return []Statistic{{"sent_pkts", 5}} }

func (fixed) Chardev(kind string, device int) (Chardev, bool) {
	return Chardev{Name: "uverbs0", ABI: 1, Number: 231<<8 | 192}, kind == "uverbs" && device == 0
}

func ask(c Command, flags uint16, attrs ...func(*message)) []byte {
	h := Header{Seq: 9, PID: 5}
	m := newMessage(&h, c.Type(), 1|flags)
	for _, a := range attrs {
		a(m)
	}
	return m.bytes()
}

func number(kind uint16, v uint32) func(*message) { return func(m *message) { m.u32(kind, v) } }

// Notifications have no number and no port, as the kernel's multicast.
func TestRemovedDevicesAreReported(t *testing.T) {
	all := Removed(fixed{})
	const head = "1c140000 00000000 00000000 08000100 00000000 09000200 72786530 00000000"
	want := []string{
		"44000000" + head + "05006600 03000000 08000300 01000000 08003200 01000000 07003300 6c6f0000",
		"2c000000" + head + "05006600 01000000",
	}
	for i, m := range all {
		if w := strings.ReplaceAll(want[i], " ", ""); hex.EncodeToString(m) != w {
			t.Errorf("message %d: %x, expected %s", i, m, w)
		}
	}
	if len(all) != len(want) {
		t.Errorf("%d messages, expected %d", len(all), len(want))
	}
}

// The bytes are those that iproute2 reads as what the fields say; the numbers are of little endian
// machines.
func TestAnswersAreTheKernelsMessages(t *testing.T) {
	if binary.NativeEndian.Uint16([]byte{1, 0}) != 1 {
		t.Skip("SKIPPED: the messages are those of little endian machines")
	}
	device, port := number(AttrDevIndex, 0), number(AttrPortIndex, 1)
	const (
		handle = "08000100 00000000 09000200 72786530 00000000"
		pid    = "08001c00 4d000000"
		done   = "14000000 03000200 09000000 05000000 00000000"
	)
	for name, c := range map[string]struct {
		request []byte
		want    string
	}{
		"context": {
			ask(CmdResCtxGet, 0, device, number(attrCtxN, 3)),
			"34000000 16140000 09000000 05000000" + handle + "08004000 03000000" + pid,
		},
		"contexts": {
			ask(CmdResCtxGet, flagDump, device),
			"3c000000 16140200 09000000 05000000" + handle + "18005600 14005700 08004000 03000000" + pid + done,
		},
		"protection domain": {
			ask(CmdResPDGet, 0, device, number(attrPDN, 5)),
			"48000000 0e140000 09000000 05000000" + handle + "0c002600 02000000 00000000 08003c00 05000000 08004000 03000000" + pid,
		},
		"statistics": {
			ask(CmdStatGet, 0, device, port),
			"50000000 11140000 09000000 05000000" + handle + "08000300 01000000 24005000 20005100 0e005200 73656e74 5f706b74 73000000" +
				"0c005300 05000000 00000000",
		},
		"system": {ask(CmdSysGet, 0), "28000000 06140000 09000000 05000000 05004200 01000000 05005d00 01000000 05006700 01000000"},
	} {
		got := ""
		for _, m := range Answer(fixed{}, c.request) {
			got += hex.EncodeToString(m)
		}
		if want := strings.ReplaceAll(c.want, " ", ""); got != want {
			t.Errorf("%s:\nfound    %s\nexpected %s", name, got, want)
		}
	}
}

// nested returns the values of all attributes of a type in b.
func nested(t testing.TB, b []byte, kind uint16) (list [][]byte) {
	t.Helper()
	for len(b) >= attrLen {
		n := int(binary.NativeEndian.Uint16(b))
		if n < attrLen || n > len(b) {
			t.Fatalf("attribute of %d bytes in %d", n, len(b))
		}
		if binary.NativeEndian.Uint16(b[2:]) == kind {
			list = append(list, b[attrLen:n])
		}
		b = b[min((n+3)&^3, len(b)):]
	}
	return list
}

func TestDumpsFitIntoAReadersPage(t *testing.T) {
	found := 0
	for _, m := range Answer(fixed{pairs: 1000}, ask(CmdResQPGet, flagDump, number(AttrDevIndex, 0))) {
		if len(m) > 4096 {
			t.Errorf("message of %d bytes", len(m))
		}
		h, attrs, ok := parse(m)
		if !ok {
			t.Fatalf("% x", m)
		}
		if h.Type != CmdResQPGet.Type() {
			continue
		}
		for _, table := range nested(t, attrs, attrQP) {
			for _, e := range nested(t, table, attrQPEntry) {
				a, err := ParseAttributes(e)
				if v, _, _ := a.Uint32(AttrLQPN); err != nil || v != uint32(17+found) {
					t.Fatalf("queue pair %d: %d, %v", found, v, err)
				}
				found++
			}
		}
	}
	if found != 1000 {
		t.Errorf("%d queue pairs", found)
	}
}

func TestRequestsAreRefused(t *testing.T) {
	device := number(AttrDevIndex, 0)
	for name, c := range map[string]struct {
		request []byte
		want    syscall.Errno
	}{
		"a command that changes devices": {ask(2, 0, device), syscall.EOPNOTSUPP},
		"no device":                      {ask(CmdResQPGet, flagDump), syscall.EINVAL},
		"a device that does not exist":   {ask(CmdResQPGet, flagDump, number(AttrDevIndex, 1)), syscall.EINVAL},
		"another port":                   {ask(CmdResQPGet, flagDump, device, number(AttrPortIndex, 2)), syscall.EINVAL},
		"no object":                      {ask(CmdResQPGet, 0, device), syscall.EINVAL},
		"an object that does not exist":  {ask(CmdResMRGet, 0, device, number(attrMRN, 1)), syscall.ENOENT},
		"statistics of no port":          {ask(CmdStatGet, 0, device), syscall.EINVAL},
		"statistics of a queue pair":     {ask(CmdStatGet, 0, device, number(attrStatRes, attrQP)), syscall.EOPNOTSUPP},
	} {
		list := Answer(fixed{}, c.request)
		h, body, ok := parse(list[0])
		if !ok || h.Type != typeError || syscall.Errno(-int32(binary.NativeEndian.Uint32(body))) != c.want {
			t.Errorf("%s: % x", name, list[0])
		}
	}
}

// FuzzAnswer asks anything: what is answered is made of whole messages and attributes.
func FuzzAnswer(f *testing.F) {
	f.Add([]byte{0xff, 0xff, 0xff, 0xff})
	for kind := range handlers {
		c := Command(kind & (1<<clientShift - 1))
		f.Add(ask(c, flagDump, number(AttrDevIndex, 0)))
		f.Add(ask(c, flagAck, number(AttrDevIndex, 0), number(AttrPortIndex, 1), number(AttrLQPN, 17)))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, m := range Answer(fixed{pairs: 3}, b) {
			h, attrs, ok := parse(m)
			if !ok || int(h.Len) != len(m) {
				t.Fatalf("answered % x", m)
			}
			if h.Type == typeError || h.Type == typeDone {
				continue
			}
			if _, err := ParseAttributes(attrs); err != nil {
				t.Errorf("answered % x: %v", m, err)
			}
		}
	})
}
