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

// warnOnce is set when the process has warned of the file of a secret.
var warnOnce sync.Once

// warnIfReadable warns of a secret's file that others may read or write. Windows
// has no such modes.
func warnIfReadable(out io.Writer, file string) {
	info, err := os.Stat(file)
	if err != nil || runtime.GOOS == "windows" || info.Mode().Perm()&0o077 == 0 {
		return
	}
	warnOnce.Do(func() {
		fmt.Fprintf(out, "softrdma: warning: --%s: others may use %s (mode %#o): whoever has read it is a trusted peer; chmod 600 it, or make a new secret\n",
			SecretFlag, file, info.Mode().Perm())
	})
}
