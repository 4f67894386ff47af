package cli

import (
	"fmt"
	"io"
	"net/netip"
	"os"
	"runtime"
	"sync"
)

// reportRefused returns a function that prints which peers failed in their TLS
// handshake with this process, and why. A throttle limits the number of lines,
// because any host on the network can cause them.
func reportRefused(out io.Writer) func(netip.AddrPort, error) {
	t := &Throttle{Print: func(line string) { fmt.Fprintln(out, "softrdma:", line) }}
	return func(peer netip.AddrPort, err error) { t.Printf("refused %v: %s", peer, OneLine(err)) }
}

// warned records the files about which this process has warned.
var warned sync.Map

// warnOnce warns about a file that a flag names, unless this process has warned about it. A
// command reads its files again for each device that it opens.
func warnOnce(out io.Writer, flag, file, text string) {
	if _, again := warned.LoadOrStore(file, true); !again {
		fmt.Fprintf(out, "softrdma: warning: --%s: %s\n", flag, text)
	}
}

// WarnIfReadable warns once about a file with a secret, which a flag names, that other
// users may read or write. Windows has no such permissions.
func WarnIfReadable(out io.Writer, flag, file string) {
	info, err := os.Stat(file)
	if err != nil || runtime.GOOS == "windows" || info.Mode().Perm()&0o077 == 0 {
		return
	}
	warnOnce(out, flag, file, fmt.Sprintf("other users can access %s (mode %#o), and everyone who knows the secret is trusted: chmod 600 it, or create a new secret",
		file, info.Mode().Perm()))
}
