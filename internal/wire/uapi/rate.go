package uapi

import (
	"fmt"

	"softrdma/internal/wire/mad/smp"
)

// A LinkRate is the rate of a port: the codes of its number of lanes and of a lane's speed, as
// ibv_query_port has them.
type LinkRate struct{ Width, Speed uint8 }

// A laneSpeed is the speed of a lane, rounded as in Linux.
type laneSpeed struct {
	mbps int
	name string
}

var laneSpeeds = map[uint8]laneSpeed{
	1: {2500, "SDR"}, 2: {5000, "DDR"}, 4: {10_000, "QDR"}, 8: {10_000, "FDR10"},
	16: {14_000, "FDR"}, 32: {25_000, "EDR"}, 64: {50_000, "HDR"}, 128: {100_000, "NDR"},
}

// Mbps returns the rate in Mb/s, 0 if a code is unknown.
func (r LinkRate) Mbps() int { return smp.Width(r.Width).Lanes() * laneSpeeds[r.Speed].mbps }

// String returns the text of the file rate of a port. Codes that are unknown are those of one lane,
// and of SDR.
func (r LinkRate) String() string {
	s, known := laneSpeeds[r.Speed]
	if !known {
		s = laneSpeeds[1]
	}
	lanes := max(smp.Width(r.Width).Lanes(), 1)
	mbps := lanes * s.mbps
	half := ""
	if mbps%1000 != 0 {
		half = ".5"
	}
	return fmt.Sprintf("%d%s Gb/sec (%dX %s)", mbps/1000, half, lanes, s.name)
}
