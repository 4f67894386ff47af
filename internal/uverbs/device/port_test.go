//go:build linux

package device

import (
	"testing"

	"softrdma/internal/wire/uapi"
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

func TestRateDescribesTheInterface(t *testing.T) {
	for _, x := range []struct {
		mbps  int
		codes uapi.LinkRate
		file  string
	}{
		{0, uapi.LinkRate{Width: 1, Speed: 1}, "2.5 Gb/sec (1X SDR)"},
		{1000, uapi.LinkRate{Width: 1, Speed: 1}, "2.5 Gb/sec (1X SDR)"},
		{10_000, uapi.LinkRate{Width: 1, Speed: 8}, "10 Gb/sec (1X FDR10)"},
		{20_000, uapi.LinkRate{Width: 2, Speed: 2}, "20 Gb/sec (4X DDR)"},
		{25_000, uapi.LinkRate{Width: 1, Speed: 32}, "25 Gb/sec (1X EDR)"},
		{40_000, uapi.LinkRate{Width: 2, Speed: 8}, "40 Gb/sec (4X FDR10)"},
		{50_000, uapi.LinkRate{Width: 16, Speed: 32}, "50 Gb/sec (2X EDR)"},
		{100_000, uapi.LinkRate{Width: 2, Speed: 32}, "100 Gb/sec (4X EDR)"},
		{200_000, uapi.LinkRate{Width: 2, Speed: 64}, "200 Gb/sec (4X HDR)"},
		{400_000, uapi.LinkRate{Width: 2, Speed: 128}, "400 Gb/sec (4X NDR)"},
		{800_000, uapi.LinkRate{Width: 2, Speed: 128}, "400 Gb/sec (4X NDR)"},
	} {
		if r := ethernetRate(x.mbps); r != x.codes || r.String() != x.file {
			t.Errorf("%d Mb/s: expected %d, %q, found %d, %q", x.mbps, x.codes, x.file, r, r.String())
		}
	}
}
