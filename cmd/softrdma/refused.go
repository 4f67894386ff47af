package main

import (
	"fmt"
	"io"
	"net/netip"
	"os"
	"runtime"
	"sync"
	"time"
)

// refusals are the peers that failed in their TLS handshake with this process.
var refusals = refusalLog{now: time.Now}

// The rate of lines of a refusalLog.
const (
	refusalBurst    = 5
	refusalInterval = time.Second
)

// A refusalLog tells of refused peers, in a line each. Anybody can be refused as
// often as he likes, so that there are no more than refusalBurst lines at once
// and one each refusalInterval after; the next line tells how many had none.
type refusalLog struct {
	now func() time.Time

	mu      sync.Mutex
	out     io.Writer
	left    int       // lines that may be printed at since
	since   time.Time // zero before the first
	skipped int
}

// to gives tell, with where it prints.
func (l *refusalLog) to(out io.Writer) func(netip.AddrPort, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.out = out
	return l.tell
}

func (l *refusalLog) tell(peer netip.AddrPort, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	if l.since.IsZero() {
		l.left, l.since = refusalBurst, now
	}
	if n := int(now.Sub(l.since) / refusalInterval); n > 0 {
		l.left, l.since = min(l.left+n, refusalBurst), now
	}
	if l.left == 0 {
		l.skipped++
		return
	}
	l.left--
	more := ""
	if l.skipped > 0 {
		more = fmt.Sprintf(" (and %d others since the last line)", l.skipped)
		l.skipped = 0
	}
	fmt.Fprintf(l.out, "softrdma: refused %v: %s%s\n", peer, oneLine(err), more)
}

// warned is set when the process has warned of the file of a secret.
var warned sync.Once

// warnOfReaders warns of a secret's file that others may read or write. Windows
// has no such modes.
func warnOfReaders(out io.Writer, file string) {
	info, err := os.Stat(file)
	if err != nil || runtime.GOOS == "windows" || info.Mode().Perm()&0o077 == 0 {
		return
	}
	warned.Do(func() {
		fmt.Fprintf(out, "softrdma: warning: --%s: others may use %s (mode %#o): whoever has read it is a trusted peer; chmod 600 it, or make a new secret\n",
			secretFlag, file, info.Mode().Perm())
	})
}
