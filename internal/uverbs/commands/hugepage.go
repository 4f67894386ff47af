//go:build linux

package commands

import (
	"os"
	"strconv"
	"strings"
	"sync"

	"softrdma/internal/uverbs/client"
	"softrdma/internal/wire/uapi"
)

const (
	// CollapseFrom is the least length of a region for which huge pages are asked.
	// For shorter ones the memory would cost more than the pages save.
	CollapseFrom = 1 << 20

	// collapseLimit is how much of a region huge pages are asked for. Making them
	// takes as long as writing the memory, while the program waits.
	collapseLimit = 64 << 20
)

// HugePage is the size of a huge page. It is 0 if the system has none, or only
// larger ones than are worth having.
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

// collapse asks the library to make pages of huge bytes in a region whose mappings
// reach from first to last. When the system copies between processes it looks up each
// page, which takes longer than the copy of a small page.
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
