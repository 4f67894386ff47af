package cli

import (
	"fmt"
	"sync"
	"time"
)

const (
	throttleLines = 50
	throttleTime  = time.Second
)

// A Throttle prints a server's messages about its clients, at most throttleLines per
// throttleTime, because any host can cause one. It also prints how many it left out. What is no text is escaped.
type Throttle struct {
	Print func(line string)

	mu      sync.Mutex
	start   time.Time // of the current throttleTime
	lines   int       // printed in it
	omitted int       // left out in it
	timer   *time.Timer
}

// Printf prints a line or leaves it out.
func (t *Throttle) Printf(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	if t.omitted == 0 && now.Sub(t.start) >= throttleTime {
		t.start, t.lines = now, 0
	}
	if t.lines < throttleLines {
		t.lines++
		t.Print(Text(fmt.Sprintf(format, args...)))
		return
	}
	t.omitted++
	if t.omitted == 1 {
		t.timer = time.AfterFunc(time.Until(t.start.Add(throttleTime)), t.Flush)
	}
}

// Flush prints how many lines were left out. A server calls it at the end.
func (t *Throttle) Flush() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.omitted > 0 {
		t.timer.Stop()
		t.Print(fmt.Sprintf("%d more lines omitted (limit: %d in %v)", t.omitted, throttleLines, throttleTime))
		t.omitted = 0
	}
}
