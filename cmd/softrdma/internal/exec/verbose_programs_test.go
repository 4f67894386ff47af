//go:build interop && linux

package exec

import (
	"strings"
	"testing"

	"softrdma/cmd/softrdma/internal/clitest"
)

// With -v exec says where the device of a program is, and each device that counts payload says once
// how much it has carried. An iWARP device counts none.
func TestProgramsAreToldWhereTheirDeviceIs(t *testing.T) {
	clitest.NeedPrograms(t, "ibv_devinfo", "true")
	for _, x := range []struct {
		flags          []string
		program        string
		inside, counts int
	}{
		{[]string{"--engine", "program"}, "ibv_devinfo", 1, 1},
		{[]string{"--engine", "auto"}, "ibv_devinfo", 1, 1},
		{[]string{"--engine", "auto"}, "true", 0, 0}, // which opens no device
		{[]string{"--engine", "daemon"}, "ibv_devinfo", 0, 1},
		{[]string{"--protocol", "iwarp"}, "ibv_devinfo", 0, 0},
	} {
		args := append([]string{"exec", "-v", "-d", clitest.LoopbackDevice(t)}, x.flags...)
		p := clitest.Start(t, append(args, "--", x.program)...)
		if code := p.ExitCode(); code != 0 {
			t.Errorf("%v %s: code %d", x.flags, x.program, code)
		}
		said := p.Stderr.String()
		if n := strings.Count(said, ": the device is in the program\n"); n != x.inside {
			t.Errorf("%v %s: %d times in the program, expected %d:\n%s", x.flags, x.program, n, x.inside, said)
		}
		if n := strings.Count(said, "payload: "); n != x.counts {
			t.Errorf("%v %s: %d lines of payload, expected %d:\n%s", x.flags, x.program, n, x.counts, said)
		}
	}
}
