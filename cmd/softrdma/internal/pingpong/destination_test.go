package pingpong

import (
	"strings"
	"testing"

	"softrdma/verbs"
)

func TestDestinationHasTheFormatOfLinuxTools(t *testing.T) {
	gid, err := verbs.ParseGID("::ffff:10.1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	d := destination{lid: 0, qpn: 0x11, psn: 0xabcdef, gid: gid}
	// ibv_rc_pingpong formats it with "%04x:%06x:%06x:%s" and a zero byte.
	const want = "0000:000011:abcdef:00000000000000000000ffff0a010203\x00"
	b := d.append(nil)
	if string(b) != want {
		t.Errorf("found %q, expected %q", b, want)
	}
	if got, err := parseDestination([]byte(want)); err != nil || got != d {
		t.Errorf("found %+v, %v, expected %+v", got, err, d)
	}
	if got, want := d.line("local", ","), "  local address:  LID 0x0000, QPN 0x000011, PSN 0xabcdef, GID ::ffff:10.1.2.3"; got != want {
		t.Errorf("found %q, expected %q", got, want)
	}
	if got, want := d.line("remote", ","), "  remote address: LID 0x0000, QPN 0x000011, PSN 0xabcdef, GID ::ffff:10.1.2.3"; got != want {
		t.Errorf("found %q, expected %q", got, want)
	}
}

func TestDestinationDamagedIsRefused(t *testing.T) {
	const good = "0000:000011:abcdef:00000000000000000000ffff0a010203\x00"
	for i := range len(good) - 1 {
		for _, c := range []byte{'g', ':', 0, 0xff, ' ', '-'} {
			b := []byte(good)
			if b[i] == c {
				continue
			}
			b[i] = c
			if d, err := parseDestination(b); err == nil {
				t.Errorf("%q is taken as %+v", b, d)
			}
		}
	}
	for n := range len(good) {
		if _, err := parseDestination([]byte(good[:n])); err == nil {
			t.Errorf("%q is taken", good[:n])
		}
	}
	if _, err := parseDestination([]byte(strings.Replace(good, "000011", "1000011", 1))); err == nil {
		t.Error("a QPN of 25 bits is taken")
	}
}

func FuzzDestination(f *testing.F) {
	f.Add([]byte("0000:000011:abcdef:00000000000000000000ffff0a010203\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		d, err := parseDestination(b)
		if err != nil {
			return
		}
		if again, err := parseDestination(d.append(nil)); err != nil || again != d {
			t.Errorf("%q is %+v, and again %+v, %v", b, d, again, err)
		}
	})
}
