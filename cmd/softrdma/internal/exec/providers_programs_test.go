//go:build interop && linux

package exec

import (
	"os"
	"strings"
	"testing"

	"softrdma/cmd/softrdma/internal/clitest"
)

// Without drivers of libibverbs its list is empty: the package that has them is named, once.
func TestProgramsWithoutProvidersAreToldThePackage(t *testing.T) {
	clitest.NeedPrograms(t, "ibv_devinfo", "unshare")
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: only root mounts directories")
	}
	for _, engine := range []string{"program", "daemon"} {
		for dir, want := range map[string]int{"/etc/libibverbs.d": 1, "/mnt": 0} {
			p := clitest.Start(t, "exec", "-d", clitest.LoopbackDevice(t), "--engine", engine, "--",
				"unshare", "--mount", "sh", "-c", "mount -t tmpfs none "+dir+" && ibv_devinfo")
			p.ExitCode()
			if n := strings.Count(p.Stderr.String(), "PROVIDERS_MISSING"); n != want {
				t.Errorf("--engine %s without %s: expected %d times, found %d: %s%s", engine, dir, want, n, &p.Stdout, &p.Stderr)
			}
		}
	}
}
