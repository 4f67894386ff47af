//go:build interop && linux

package exec

import (
	"fmt"
	"path/filepath"
	"testing"

	"softrdma/cmd/softrdma/internal/clitest"
)

// The metrics of exec have round trips and latencies of programs, with the devices in the programs or in exec.
func TestProgramsHaveTheirLatenciesInMetrics(t *testing.T) {
	clitest.NeedPrograms(t, "ib_write_lat")
	t.Setenv("SOFTRDMA_SAME_HOST", "off") // which measures round trips
	for _, engine := range []string{"program", "daemon"} {
		t.Run(engine, func(t *testing.T) {
			t.Setenv("SOFTRDMA_CONTROL_DIR", filepath.Join(clitest.ShortDir(t), "control"))
			server, client, metrics := clitest.LoopbackDevice(t), clitest.LoopbackDevice(t), filepath.Join(clitest.ShortDir(t), "metrics")
			c := &counted{metrics: metrics, shell: startSession(t, "--engine", engine, "--metrics", metrics, "-d", server, "-d", client)}
			program := fmt.Sprintf("ib_write_lat -F -D 600 -p %s -d ", clitest.FreePort(t))
			c.shell.run(program + "rxe0 >/dev/null 2>&1 &")
			c.shell.run(fmt.Sprintf("while ! %srxe1 127.0.0.1; do sleep .1; done >/dev/null 2>&1 &", program))
			for _, name := range []string{"round_trip", "completion_latency"} {
				await(t, name, func() bool {
					return number(c.scrape(), fmt.Sprintf(`^softrdma_%s_seconds_count{address=%q,device="rxe1"} `, name, client)) > 10
				})
			}
		})
	}
}
