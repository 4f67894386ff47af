package loop

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

// ContextSwitches returns the number of times that the threads of a process were
// scheduled, from Linux's /proc. It does not grow while the process sleeps.
func ContextSwitches(pid int) (n int, err error) {
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	if err != nil {
		return 0, err
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if os.IsNotExist(err) {
			continue // the thread has ended
		}
		if err != nil {
			return 0, err
		}
		for line := range bytes.Lines(text) {
			name, value, _ := bytes.Cut(line, []byte(":"))
			if string(name) != "voluntary_ctxt_switches" && string(name) != "nonvoluntary_ctxt_switches" {
				continue
			}
			count, err := strconv.Atoi(string(bytes.TrimSpace(value)))
			if err != nil {
				return 0, fmt.Errorf("%s: %w", name, err)
			}
			n += count
		}
	}
	if n == 0 {
		return 0, fmt.Errorf("/proc/%d/task: no context switches found", pid)
	}
	return n, nil
}
