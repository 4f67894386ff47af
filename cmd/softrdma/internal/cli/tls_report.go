package cli

import (
	"fmt"
	"io"
	"net/netip"
	"os"
	"runtime"
	"sync"
)

// ReportRefused returns a function that prints which peers failed in their TLS
// handshake with this process, and why. A throttle limits the number of lines,
// because any host on the network can cause them.
func ReportRefused(out io.Writer) func(netip.AddrPort, error) {
	t := &Throttle{Print: func(line string) { fmt.Fprintln(out, "softrdma:", line) }}
	return func(peer netip.AddrPort, err error) { t.Printf("refused %v: %s", peer, OneLine(err)) }
}

// warnOnce limits the warning about the file of a secret to one in a process.
var warnOnce sync.Once

// warnIfReadable warns about a file with a secret that other users may read or write.
// Windows has no such permissions.
func warnIfReadable(out io.Writer, file string) {
	info, err := os.Stat(file)
	if err != nil || runtime.GOOS == "windows" || info.Mode().Perm()&0o077 == 0 {
		return
	}
	warnOnce.Do(func() {
		fmt.Fprintf(out, "softrdma: warning: --%s: other users can access %s (mode %#o), and everyone who knows the secret is trusted: chmod 600 it, or create a new secret\n",
			SecretFlag, file, info.Mode().Perm())
	})
}
