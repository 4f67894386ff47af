package main

import (
	"fmt"
	"sync"
	"time"
)

const (
	throttleLines = 50
	throttleTime  = time.Second
)

// A throttle prints a server's messages about its clients, at most throttleLines per
// throttleTime, because any host can cause one. It also prints how many it left out.
type throttle struct {
	print func(line string)

	mu    sync.Mutex
	begun time.Time // of the present throttleTime
	lines int       // printed in it
	left  int       // not printed in it
	timer *time.Timer
}

// line prints a line, or leaves it out.
func (t *throttle) line(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if now := time.Now(); t.left == 0 && now.Sub(t.begun) >= throttleTime {
		t.begun, t.lines = now, 0
	}
	if t.lines < throttleLines {
		t.lines++
		t.print(fmt.Sprintf(format, args...))
		return
	}
	if t.left++; t.left == 1 {
		t.timer = time.AfterFunc(time.Until(t.begun.Add(throttleTime)), t.end)
	}
}

// end prints how many lines were left out. A server calls it last.
func (t *throttle) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.left > 0 {
		t.timer.Stop()
		t.print(fmt.Sprintf("%d more lines left out, more than %d in %v", t.left, throttleLines, throttleTime))
		t.left = 0
	}
}
