package verbs

import (
	"bufio"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

const hugePageFlag = unix.MAP_HUGETLB

// hugePageSize is the system's default size of huge pages in bytes.
func hugePageSize() (int, error) {
	f, err := os.Open("/proc/meminfo")
	if err != nil {
		return 0, err
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		var kb int
		if n, _ := fmt.Sscanf(s.Text(), "Hugepagesize: %d kB", &kb); n == 1 {
			return kb << 10, nil
		}
	}
	return 0, fmt.Errorf("the kernel has no huge pages (no Hugepagesize in /proc/meminfo)")
}
