package samehost

import (
	"errors"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"

	"softrdma/internal/reason"
)

// wantReason checks the reason of an error.
func wantReason(t *testing.T, err error, want reason.Reason) {
	t.Helper()
	var e *reason.Error
	if !errors.As(err, &e) || e.Detail.Reason != want {
		t.Errorf("found %v, expected %v", err, want)
	}
}

// messages returns one message of each kind.
func messages() []message {
	return []message{
		{kind: welcome, stack: 1 << 63, mode: Require, lanes: MaxLanes},
		{
			kind: hello, stack: 3, lanes: 2, first: 254, of: 256, device: "RoCE v2", from: netip.MustParseAddrPort("[fe80::1%eth0]:4791"),
			to: netip.MustParseAddrPort("10.0.0.1:1"), name: "rocev2_10.0.0.2_4791_4-1_1", descriptorsAsked: 3,
		},
		{kind: answer, lanes: 5, seen: nonce{1, 2, 15: 3}, descriptorsAsked: 6},
		{kind: confirm, seen: nonce{9}},
		{kind: ready},
		{kind: refused, reason: "HOST_USER", expected: 1, found: 1 << 40},
		{kind: offer, id: 1, generation: 2, size: 1 << 33, descriptorsAsked: 1},
		{kind: mapped, id: 1, generation: 1<<32 - 1},
		{kind: unmappable, id: 1<<32 - 1},
		{kind: withdraw, id: 8},
		{kind: locate, key: 1 << 31, at: 1 << 47},
		{kind: located, key: 1 << 31, id: 5, at: 1 << 13},
	}
}

func TestMessagesSurviveTheSocket(t *testing.T) {
	all := messages()
	if len(all) != int(kinds)-1 {
		t.Fatalf("%d messages for %d kinds", len(all), kinds-1)
	}
	for _, m := range all {
		var got message
		if err := got.parse(m.append(nil)); err != nil || got != m {
			t.Errorf("%+v became %+v, %v", m, got, err)
		}
	}
}

func TestMessageCutOrLongerIsRefused(t *testing.T) {
	for _, m := range messages() {
		b := m.append(nil)
		for n := range b {
			var got message
			wantReason(t, got.parse(b[:n]), reason.HostMessage)
		}
		var got message
		wantReason(t, got.parse(append(b, 0)), reason.HostMessage)
		if len(b) > maxMessage {
			t.Errorf("%d bytes, room for %d", len(b), maxMessage)
		}
	}
}

func TestMessageOfAnotherVersionIsRefused(t *testing.T) {
	b := (&message{kind: ready}).append(nil)
	b[4]++
	var m message
	wantReason(t, m.parse(b), reason.HostVersion)
}

func FuzzMessage(f *testing.F) {
	for _, m := range messages() {
		f.Add(m.append(nil))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var m, again message
		if m.parse(b) != nil {
			return
		}
		if m.descriptorsAsked > maxRights || m.lanes > MaxLanes {
			t.Fatalf("asks for %d descriptors, %d lanes", m.descriptorsAsked, m.lanes)
		}
		if err := again.parse(m.append(nil)); err != nil || again != m {
			t.Fatalf("%+v became %+v, %v", m, again, err)
		}
	})
}

func TestNamesAreParsed(t *testing.T) {
	for _, local := range []string{"10.0.0.1:4791", "[fd00::1]:1", "[fe80::1%eth_0_1]:65535", "[::ffff:1.2.3.4]:9"} {
		n := name{kind: "rocev2", local: netip.MustParseAddrPort(local), space: space{4, 4026531840}, since: rand.Uint64()}
		got, ok := parseName(n.String())
		if !ok || got != n {
			t.Errorf("%v became %v, %v", n, got, ok)
		}
	}
	good := "rocev2_10.0.0.1_4791_4-4026531840_dkxvm5azpy3k"
	if _, ok := parseName(good); !ok {
		t.Errorf("%q is no name", good)
	}
	for _, s := range []string{
		"", ".", "..", "." + good, good + "_", good + "/x", strings.ToUpper(good), "rocev2_10.0.0.1_4791_4-4026531840", "_10.0.0.1_4791_4-1_1_1",
		"rocev2_10.0.0.1_04791_4-1_1", "rocev2_10.0.0.1_70000_4-1_1", "rocev2_10.0.0.01_4791_4-1_1", "rocev2_10.0.0.1_4791_4_1", "rocev2_10.0.0.1_4791_g-1_1",
		"rocev2_fe80::1%../../etc_4791_4-1_1",
	} {
		if n, ok := parseName(s); ok {
			t.Errorf("%q is the name %+v", s, n)
		}
	}
}

func FuzzName(f *testing.F) {
	f.Add("rocev2_10.0.0.1_4791_4-4026531840_dkxvm5azpy3k")
	f.Add("rocev2_fe80::1%eth_0_4791_4-4026531840_1")
	f.Fuzz(func(t *testing.T, s string) {
		if n, ok := parseName(s); ok && n.String() != s {
			t.Fatalf("%q is printed as %q", s, n)
		}
	})
}

func TestModes(t *testing.T) {
	for s, want := range map[string]Mode{"": Auto, "auto": Auto, "off": Off, "require": Require} {
		got, err := ParseMode(s)
		if err != nil || got != want || s != "" && got.String() != s {
			t.Errorf("%q is %v, %v", s, got, err)
		}
	}
	_, err := ParseMode("maybe")
	wantReason(t, err, reason.Argument)
	if d := (reason.Detail{Reason: reason.HostOff, Found: uint64(Off)}); !strings.Contains(d.String(), "expected mode auto, found off") {
		t.Error(d)
	}
}

func TestUsers(t *testing.T) {
	for _, c := range []struct {
		own    uint32
		mapped bool
		allow  []string
		yes    []uint32
		no     []uint32
	}{
		{own: 1000, mapped: true, yes: []uint32{1000}, no: []uint32{0, 1001, overflowUID}},
		{own: 1000, mapped: true, allow: []string{"root", "7"}, yes: []uint32{1000, 0, 7}, no: []uint32{8, overflowUID}},
		{own: 1000, allow: []string{"65534"}, yes: []uint32{1000}, no: []uint32{overflowUID}},
		{own: overflowUID, mapped: true, yes: []uint32{overflowUID}, no: []uint32{0}},
		{own: overflowUID, no: []uint32{overflowUID, 0}},
		{own: 1000, allow: []string{"all"}, yes: []uint32{0, 1, overflowUID, 1000}},
	} {
		u, err := newUsers(c.own, c.mapped, c.allow)
		if err != nil {
			t.Fatal(err)
		}
		for _, uid := range c.yes {
			if err := u.check(uid); err != nil {
				t.Errorf("%+v refuses %d: %v", c, uid, err)
			}
		}
		for _, uid := range c.no {
			wantReason(t, u.check(uid), reason.HostUser)
			if u.same(uid) {
				t.Errorf("%+v takes %d for itself", c, uid)
			}
		}
		if u.shared() != (len(c.allow) > 0) {
			t.Errorf("%+v is shared: %v", c, u.shared())
		}
	}
}
