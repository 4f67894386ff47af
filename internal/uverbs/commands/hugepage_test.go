//go:build linux

package commands

import (
	"testing"

	"softrdma/internal/uverbs/client"
	"softrdma/internal/wire/uapi"
)

// What is asked for are whole huge pages of the region's own mappings, where it
// is long.
func TestHugePagesAreRequestedForLongRegions(t *testing.T) {
	const huge = 2 << 20
	for _, c := range []struct {
		name                       string
		start, length, first, last uint64
		at, n                      uint64 // nothing where n is 0
	}{
		{"short", 10 * huge, CollapseFrom - 1, 0, 100 * huge, 0, 0},
		{"rounded", 10*huge + 4096, 3 * huge, 10 * huge, 14 * huge, 10 * huge, 4 * huge},
		{"next to others'", 10*huge + 4112, 3 * huge, 10*huge + 4096, 13*huge + 8192, 11 * huge, 2 * huge},
		{"without a whole one", 10*huge + 4112, huge, 10*huge + 4096, 11*huge + 8192, 0, 0},
		{"very long", 10 * huge, 2 * collapseLimit, 10 * huge, 10*huge + 2*collapseLimit, 10 * huge, collapseLimit},
	} {
		var a client.Answer
		collapse(&a, huge, c.start, c.length, c.first, c.last)
		if asked := a.Flags&uapi.ReplyCollapse != 0; asked != (c.n != 0) || a.Offset != c.at || a.Rdev != c.n {
			t.Errorf("%s: found %#x bytes at %#x (%v), expected %#x at %#x", c.name, a.Rdev, a.Offset, asked, c.n, c.at)
		}
	}
	var none client.Answer
	if collapse(&none, 0, 0, 64*huge, 0, 64*huge); none.Flags != 0 {
		t.Error("huge pages were requested although there are none")
	}
}
