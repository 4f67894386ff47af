//go:build linux

package device

import (
	"testing"

	"softrdma/verbs"
)

func TestLoopbackPortIsFast(t *testing.T) {
	v, err := verbs.Open("127.0.0.89", verbs.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	d := New(v, nil)
	p, err := d.Port(1)
	if err != nil {
		t.Fatal(err)
	}
	if p.ActiveWidth != 2 || p.ActiveSpeed != 32 {
		t.Errorf("expected 4x (2) at 25 Gb/s (32), found %d at %d", p.ActiveWidth, p.ActiveSpeed)
	}
	files := map[string]string{}
	d.addEthernetPort("", files)
	if files["rate"] != "100 Gb/sec (4X EDR)" {
		t.Errorf("the port's file says %q", files["rate"])
	}
}

func TestRateIsAtMostThatOfTheInterface(t *testing.T) {
	for mbps, speed := range map[int]uint8{0: 1, 1000: 1, 10000: 4, 24999: 16, 100000: 128} {
		if w, s := rate(mbps); w != 1 || s != speed {
			t.Errorf("%d Mb/s: expected 1x at %d, found %d at %d", mbps, speed, w, s)
		}
	}
}
