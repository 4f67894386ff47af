package scenario

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
)

// Sizes is the name of a published distribution of the sizes of messages.
type Sizes string

// A point is how many of 1000 messages are at most so long.
type point struct {
	bytes   float64
	permill float64
}

// distributions are those of the simulator of HPCC (SIGCOMM 2019, github.com/alibaba-edu): the web
// search of DCTCP (SIGCOMM 2010) and Hadoop at Facebook (SIGCOMM 2015). Sizes between two points are
// equally likely.
var distributions = map[Sizes][]point{
	"web-search": {
		{0, 0}, {10e3, 150}, {20e3, 200}, {30e3, 300}, {50e3, 400}, {80e3, 530}, {200e3, 600}, {1e6, 700}, {2e6, 800},
		{5e6, 900}, {10e6, 970}, {30e6, 1000},
	},
	"hadoop": {
		{0, 0}, {100, 10}, {200, 20}, {300, 50}, {350, 150}, {400, 200}, {500, 300}, {600, 400}, {700, 500}, {1000, 600},
		{2e3, 670}, {7e3, 700}, {30e3, 720}, {50e3, 820}, {80e3, 870}, {120e3, 900}, {300e3, 950}, {1e6, 975}, {2e6, 990}, {10e6, 1000},
	},
}

// UnmarshalText reads a name.
func (s *Sizes) UnmarshalText(b []byte) error {
	if _, ok := distributions[Sizes(b)]; ok {
		*s = Sizes(b)
		return nil
	}
	var names []string
	for _, n := range slices.Sorted(maps.Keys(distributions)) {
		names = append(names, string(n))
	}
	return fmt.Errorf("expected one of %s", strings.Join(names, ", "))
}

// Mean returns the mean of the sizes in bytes.
func (s Sizes) Mean() (mean float64) {
	d := distributions[s]
	for i := 1; i < len(d); i++ {
		mean += (d[i].bytes + d[i-1].bytes) / 2 * (d[i].permill - d[i-1].permill) / 1000
	}
	return mean
}

// Draw draws a size, of at least a byte.
func (s Sizes) Draw(r *rand.Rand) uint32 {
	d := distributions[s]
	p := r.Float64() * 1000
	i, _ := slices.BinarySearchFunc(d, p, func(x point, p float64) int {
		if x.permill < p {
			return -1
		}
		return 1
	})
	i = min(max(i, 1), len(d)-1)
	a, b := d[i-1], d[i]
	return uint32(max(1, a.bytes+(b.bytes-a.bytes)*(p-a.permill)/(b.permill-a.permill)))
}
