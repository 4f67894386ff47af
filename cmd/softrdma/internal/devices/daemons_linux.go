package devices

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"softrdma/cmd/softrdma/internal/cli"
	"softrdma/internal/daemon"
	"softrdma/internal/wire/uapi"
)

// printDaemons lists the addresses that daemons share, by the names that -d takes. "shared:"
// without a socket means the first daemon.
func printDaemons(ctx context.Context, out io.Writer) {
	first := true
	for _, socket := range daemon.Sockets() {
		about, err := daemon.Ask(ctx, socket)
		if err != nil {
			continue // most machines run no daemon
		}
		prefix := cli.SharedPrefix + socket
		if first {
			prefix = cli.SharedPrefix
		}
		first = false
		var shared []string
		for _, line := range about.Devices {
			if name, addr, _ := strings.Cut(line, " "); !strings.Contains(addr, "(iWARP") && !strings.HasSuffix(addr, uapi.NotShared) {
				shared = append(shared, fmt.Sprintf("   %s/%s  %s\n", prefix, name, addr))
			}
		}
		if len(shared) > 0 {
			fmt.Fprintf(out, "\nThe daemon on %s shares:\n%s", socket, strings.Join(shared, ""))
		}
	}
}

// programName is the name of a process's program, "" if it is not known.
func programName(pid int) string {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	return strings.TrimSpace(string(b))
}
