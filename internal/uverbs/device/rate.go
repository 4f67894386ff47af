//go:build linux

package device

import "softrdma/internal/wire/uapi"

// rate returns the rate of a device on Ethernet. That of devices on the loopback interface is 4x
// 25 Gb/s. Their packets cross no wire, and the system names no speed. UCX chooses its protocols by
// the rate: with 2.5 Gb/s it copies messages of up to hundreds of kilobytes in fragments of 8 KiB,
// because it takes a request to read for much slower than a copy.
func (d *Device) rate() uapi.LinkRate {
	if d.Verbs.Addr().Addr().IsLoopback() {
		return ethernetRate(100_000)
	}
	return ethernetRate(d.Verbs.QueryPort().SpeedMbps)
}

// ethernetRate returns the rate by which Linux's RDMA devices on Ethernet describe an interface:
// the lowest of a list that is no less than the interface's speed. It is the first one if the speed
// is unknown, and the last one if the interface is faster.
func ethernetRate(mbps int) uapi.LinkRate {
	for _, r := range []struct {
		mbps int
		rate uapi.LinkRate
	}{
		{1000, uapi.LinkRate{Width: 1, Speed: 1}}, {10_000, uapi.LinkRate{Width: 1, Speed: 8}},
		{20_000, uapi.LinkRate{Width: 2, Speed: 2}}, {25_000, uapi.LinkRate{Width: 1, Speed: 32}},
		{40_000, uapi.LinkRate{Width: 2, Speed: 8}}, {50_000, uapi.LinkRate{Width: 16, Speed: 32}},
		{100_000, uapi.LinkRate{Width: 2, Speed: 32}}, {200_000, uapi.LinkRate{Width: 2, Speed: 64}},
	} {
		if mbps <= r.mbps {
			return r.rate
		}
	}
	return uapi.LinkRate{Width: 2, Speed: 128}
}
