//go:build linux

package device

import (
	"fmt"

	"softrdma/internal/wire/mad/smp"
)

// A linkRate is the rate of a port: the codes of its number of lanes and of a lane's speed, as
// ibv_query_port has them.
type linkRate struct{ width, speed uint8 }

// rate returns the rate of a device on Ethernet. That of devices on the loopback interface is 4x
// 25 Gb/s. Their packets cross no wire, and the system names no speed. UCX chooses its protocols by
// the rate: with 2.5 Gb/s it copies messages of up to hundreds of kilobytes in fragments of 8 KiB,
// because it takes a request to read for much slower than a copy.
func (d *Device) rate() linkRate {
	if d.Verbs.Addr().Addr().IsLoopback() {
		return ethernetRate(100_000)
	}
	return ethernetRate(d.Verbs.QueryPort().SpeedMbps)
}

// ethernetRate returns the rate by which Linux's RDMA devices on Ethernet describe an interface:
// the lowest of a list that is no less than the interface's speed. It is the first one if the speed
// is unknown, and the last one if the interface is faster.
func ethernetRate(mbps int) linkRate {
	for _, r := range []struct {
		mbps int
		rate linkRate
	}{
		{1000, linkRate{1, 1}}, {10_000, linkRate{1, 8}}, {20_000, linkRate{2, 2}}, {25_000, linkRate{1, 32}},
		{40_000, linkRate{2, 8}}, {50_000, linkRate{16, 32}}, {100_000, linkRate{2, 32}}, {200_000, linkRate{2, 64}},
	} {
		if mbps <= r.mbps {
			return r.rate
		}
	}
	return linkRate{2, 128}
}

// String returns the text of the file rate, with the rates of lanes rounded as in Linux.
func (r linkRate) String() string {
	lane, name := 25, "SDR" // a tenth of a Gb/s
	switch r.speed {
	case 2:
		lane, name = 50, "DDR"
	case 4:
		lane, name = 100, "QDR"
	case 8:
		lane, name = 100, "FDR10"
	case 16:
		lane, name = 140, "FDR"
	case 32:
		lane, name = 250, "EDR"
	case 64:
		lane, name = 500, "HDR"
	case 128:
		lane, name = 1000, "NDR"
	}
	lanes := max(smp.Width(r.width).Lanes(), 1)
	half := ""
	if lane*lanes%10 != 0 {
		half = ".5"
	}
	return fmt.Sprintf("%d%s Gb/sec (%dX %s)", lane*lanes/10, half, lanes, name)
}
