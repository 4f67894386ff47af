//go:build linux

package commands

import (
	"os"
	"strconv"
	"strings"
	"sync"

	"softrdma/internal/uverbs/client"
	"softrdma/internal/uverbs/uapi"
)

const (
	// CollapseFrom is how long a region is that huge pages are asked for: less
	// would take more memory than it is worth.
	CollapseFrom = 1 << 20

	// collapseLimit is how much of a region that is done for. It takes as long as
	// writing the memory, while the program waits.
	collapseLimit = 64 << 20
)

// HugePage is how long a huge page is, 0 where the system gives none to anybody,
// or none of a size that one would give away.
var HugePage = sync.OnceValue(func() uint64 {
	const dir = "/sys/kernel/mm/transparent_hugepage/"
	enabled, _ := os.ReadFile(dir + "enabled")
	size, _ := os.ReadFile(dir + "hpage_pmd_size")
	n, _ := strconv.ParseUint(strings.TrimSpace(string(size)), 10, 64)
	if !strings.Contains(string(enabled), "[") || strings.Contains(string(enabled), "[never]") || n > 2<<20 || n&(n-1) != 0 {
		return 0
	}
	return n
})

// collapse asks the library to make huge pages of a region, whose mappings reach
// from first to last, where they are huge bytes long. The system looks up each page that it copies between
// processes, and that takes longer than the copy where they are small.
func collapse(a *client.Answer, huge, start, length, first, last uint64) {
	if huge == 0 || length < CollapseFrom {
		return
	}
	end := start + min(length, collapseLimit)
	if start &^= huge - 1; start < first {
		start += huge
	}
	if end = (end + huge - 1) &^ (huge - 1); end > last {
		end -= huge
	}
	if start < end {
		a.Flags |= uapi.ReplyCollapse
		a.Offset, a.Rdev = start, end-start
	}
}
