package cli

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Only some of many lines are printed at once, followed by the number of those left
// out. Later lines are printed again.
func TestThrottleCountsOmittedLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex // the throttle's timer prints as well
		var printed []string
		th := &Throttle{Print: func(s string) {
			mu.Lock()
			defer mu.Unlock()
			printed = append(printed, s)
		}}
		all := func() []string {
			mu.Lock()
			defer mu.Unlock()
			return slices.Clone(printed)
		}
		for i := range 1000 {
			th.Printf("line %d", i)
		}
		if n := len(all()); n != throttleLines {
			t.Fatalf("%d lines at once", n)
		}
		time.Sleep(2 * throttleTime)
		synctest.Wait()
		lines := all()
		if want := fmt.Sprint(1000-throttleLines, " more lines"); len(lines) != throttleLines+1 || !strings.HasPrefix(lines[throttleLines], want) {
			t.Fatalf("%d lines, the last %q, expected %q", len(lines), lines[len(lines)-1], want)
		}
		th.Printf("later")
		if lines = all(); lines[len(lines)-1] != "later" {
			t.Errorf("the last line is %q", lines[len(lines)-1])
		}
		for range 2 * throttleLines {
			th.Printf("again")
		}
		th.Flush()
		lines = all()
		if last := lines[len(lines)-1]; !strings.Contains(last, "more lines omitted") {
			t.Errorf("the last line is %q", last)
		}
		th.Flush()
	})
}
