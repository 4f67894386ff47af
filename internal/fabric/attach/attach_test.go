package attach

import (
	"bytes"
	"errors"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"softrdma/internal/reason"
	"softrdma/internal/wire/mad"
	"softrdma/internal/wire/mad/smp"
)

func TestParseAddress(t *testing.T) {
	for text, want := range map[string]Address{
		"net/H1":                   {"net", "H1", 1},
		"net/H1:2":                 {"net", "H1", 2},
		"a.b-c_d/0x00000000000001": {"a.b-c_d", "0x00000000000001", 1},
		"net/Switch 4: left:255":   {"net", "Switch 4: left", 255},
		"net@10.0.0.1/H1":          {"net@10.0.0.1", "H1", 1},
		"net@[fd00::1]:7/H1:2":     {"net@[fd00::1]:7", "H1", 2},
	} {
		if a, err := ParseAddress(text); err != nil || a != want {
			t.Errorf("%q: %+v, %v", text, a, err)
		}
	}
	for _, text := range []string{"", "net", "net/", "/H1", "net/H1:0", "net/H1:256", "net/H1:", "net/:1", "../x/H1", "a b/H1", ".net/H1", "@host/H1", "net@/H1"} {
		a, err := ParseAddress(text)
		var named *reason.Error
		if !errors.As(err, &named) || named.Detail.Reason != reason.FabricAddress {
			t.Errorf("%q: %+v, %v", text, a, err)
		}
	}
}

func TestDirectory(t *testing.T) {
	t.Setenv("SOFTRDMA_FABRIC_DIR", "/some/where")
	if d := directories(); !slices.Equal(d, []string{"/some/where"}) {
		t.Errorf("%q", d)
	}
	t.Setenv("SOFTRDMA_FABRIC_DIR", filepath.Join(t.TempDir(), "missing"))
	if all, err := Sockets(); err != nil || all != nil {
		t.Errorf("%q, %v", all, err)
	}
}

func TestMessagesOfQueuePair0(t *testing.T) {
	d := Departure{DLID: 0xffff, SL: 15, MAD: [mad.Len]byte{0: 1, 255: 2}}
	var e Departure
	if err := e.Parse(d.Message()); err != nil || e != d {
		t.Errorf("%+v, %v", e, err)
	}
	a := Arrival{SLID: 1, DLID: 2, SL: 3, SourceQPN: 4, MAD: &d.MAD}
	var b Arrival
	if err := b.Parse(a.Message()); err != nil || !reflect.DeepEqual(a, b) {
		t.Errorf("%+v, %v", b, err)
	}
}

func TestRefusalsKeepTheirReason(t *testing.T) {
	for _, err := range []error{
		&reason.Error{Detail: reason.Detail{Reason: reason.FabricHeld, Expected: 1, Found: 2}, Text: "held by 2"},
		errors.New("something else"),
	} {
		got := new(reason.Error)
		if !errors.As(Protocol.ParseRefusal(Protocol.Refusal(err)), &got) || got.Error() != err.Error() {
			t.Errorf("%v became %v", err, got)
		}
		var named *reason.Error
		if errors.As(err, &named) && got.Detail != named.Detail {
			t.Errorf("%+v became %+v", named.Detail, got.Detail)
		}
	}
}

func TestChanges(t *testing.T) {
	var a Info
	b := Info{Up: true, PKeys: []uint16{0xffff}, GUIDs: []uint64{1}, Addrs: []netip.Addr{netip.IPv6Loopback()}}
	b.PortInfo = smp.PortInfo{LID: 1, MasterSMLID: 2, GIDPrefix: 3, State: smp.PortActive}
	if e := changes(&a, &b); !slices.Equal(e, []Event{FabricBack, LIDChanged, ManagerChanged, PrefixChanged, PartitionsChanged, GUIDsChanged, PortActive}) {
		t.Errorf("%v", e)
	}
	c := b
	c.Up, c.PortInfo.State = false, smp.PortDown
	if e := changes(&b, &c); !slices.Equal(e, []Event{PortError, FabricGone}) {
		t.Errorf("%v", e)
	}
	if e := changes(&b, &b); e != nil {
		t.Errorf("%v", e)
	}
}

func FuzzMessages(f *testing.F) {
	d := Departure{MAD: [mad.Len]byte{1}}
	f.Add(d.Message())
	a := Arrival{MAD: &d.MAD}
	f.Add(a.Message())
	for _, body := range []any{HelloBody{Version: 1, Node: "H1", Port: 1}, InfoBody{}} {
		m, err := Protocol.Message(Hello, body)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(m)
	}
	f.Add(append([]byte{byte(Find)}, make([]byte, 16)...))
	f.Add([]byte{byte(End)})
	v := Violation{QKey: true, Global: true, Key: 5, SLID: 1, DLID: 2, SL: 3, SourceQPN: 4, DestinationQPN: 6, Source: mad.GID{7}, Destination: mad.GID{8}}
	f.Add(v.Message())
	member := Membership{MGID: mad.GID{0xff, 0x12}, State: 1}
	f.Add(member.message(true))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) == 0 {
			return // the end of a connection
		}
		if d.Parse(b) == nil && !bytes.Equal(d.Message()[1:], b[1:]) {
			t.Errorf("departure %x", b)
		}
		if a.Parse(b) == nil && !bytes.Equal(a.Message()[1:], b[1:]) {
			t.Errorf("arrival %x", b)
		}
		if v.Parse(b) == nil && !bytes.Equal(v.Message()[1:], b[1:]) {
			t.Errorf("violation %x", b)
		}
		if on, err := member.Parse(b); err == nil && !bytes.Equal(member.message(on)[1:], b[1:]) {
			t.Errorf("membership %x", b)
		}
		if ip, err := ParseAddr(b); (err == nil) != (len(b) == 17) || err == nil && ip.As16() != [16]byte(b[1:]) {
			t.Errorf("address %x: %v, %v", b, ip, err)
		}
		var h HelloBody
		var i InfoBody
		_, _ = Protocol.Parse(b, &h), Protocol.Parse(b, &i)
	})
}

func TestFabricsOfRootAreOptional(t *testing.T) {
	for _, c := range []struct {
		dir  string
		err  error
		want bool
	}{
		{systemDirectory, fs.ErrPermission, os.Geteuid() != 0},
		{systemDirectory, fs.ErrInvalid, false},
		{"/some/where", fs.ErrPermission, false},
	} {
		if got := notOurs(c.dir, c.err); got != c.want {
			t.Errorf("%s, %v: skipped %v, expected %v", c.dir, c.err, got, c.want)
		}
	}
}
