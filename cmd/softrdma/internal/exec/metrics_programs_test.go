//go:build interop && linux

package exec

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"softrdma/cmd/softrdma/internal/clitest"
)

// The bytes that ib_write_bw reports are those of the metrics, with the devices in the programs or in
// exec.
func TestProgramsHaveTheirBytesInMetrics(t *testing.T) {
	clitest.NeedPrograms(t, "ib_write_bw", "curl")
	const size, count = 65536, 1000
	for _, engine := range []string{"program", "daemon"} {
		a, b, socket := clitest.LoopbackDevice(t), clitest.LoopbackDevice(t), filepath.Join(t.TempDir(), "metrics")
		// The server listens once it has printed its head.
		script := filepath.Join(t.TempDir(), "script")
		text := fmt.Sprintf(`out=$(mktemp); ib_write_bw -d rxe0 -s %d -n %d > $out & server=$!
for i in $(seq 100); do ib_write_bw -d rxe1 -s %d -n %d %s >/dev/null 2>&1 && break; sleep .1; done
wait $server && curl -sS --fail --unix-socket %s http://metrics/metrics; rm $out`, size, count, size, count, a, socket)
		if err := os.WriteFile(script, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		out := clitest.Run(t, "exec", "--engine", engine, "--metrics", socket, "-d", a, "-d", b, "--", "sh", script)
		want := fmt.Sprintf("softrdma_received_payload_bytes_total{address=%q,device=\"rxe0\"} ", a)
		_, rest, found := strings.Cut(out, want)
		var bytes float64
		if _, err := fmt.Sscan(rest, &bytes); !found || err != nil || bytes != size*count {
			t.Errorf("--engine %s: found %v bytes (%v), expected %d:\n%s", engine, bytes, err, size*count, out)
		}
	}
}
