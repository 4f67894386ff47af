package demo

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"softrdma/cmd/softrdma/internal/cli"
	"softrdma/cmd/softrdma/internal/clitest"
	"softrdma/internal/host/hosttest"
)

// inContainer runs the command in network and mount namespaces of its own that prepare
// has changed. Their loopback interface is down.
func inContainer(t *testing.T, prepare func(lo netlink.Link), args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, notes bytes.Buffer
	command := clitest.Command(t) // built outside of the namespaces
	hosttest.OnThread(t, func() {
		if err := unix.Unshare(unix.CLONE_NEWNET | unix.CLONE_NEWNS); err != nil {
			if os.Getenv("CI") == "true" && os.Getuid() == 0 {
				t.Errorf("namespaces: %v", err)
				return
			}
			t.Skipf("SKIPPED: namespaces are not permitted here: %v", err)
		}
		hosttest.Must(t, unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
		lo, err := netlink.LinkByName("lo")
		hosttest.Must(t, err)
		prepare(lo)
		cmd := exec.Command(command, args...)
		cmd.Stdout, cmd.Stderr = &out, &notes
		cmd.Run()
		code = cmd.ProcessState.ExitCode()
	})
	return out.String(), notes.String(), code
}

func runInContainer(t *testing.T, prepare func(lo netlink.Link), args ...string) report {
	t.Helper()
	out, notes, code := inContainer(t, prepare, append([]string{"demo", "--json", "--size", "1M"}, args...)...)
	var r report
	if err := json.Unmarshal([]byte(out), &r); err != nil || code != cli.ExitOK {
		t.Fatalf("code %d, %v: it printed\n%s%s", code, err, out, notes)
	}
	return r
}

func TestDemoOnMachineWithIPv6Alone(t *testing.T) {
	onlyIPv6 := func(lo netlink.Link) {
		hosttest.Must(t, netlink.LinkSetUp(lo))
		addrs, err := netlink.AddrList(lo, unix.AF_INET)
		hosttest.Must(t, err)
		for _, a := range addrs {
			hosttest.Must(t, netlink.AddrDel(lo, &a))
		}
	}
	for protocol, want := range map[string][2]string{"roce": {"[::1]:4791", "[::1]:4792"}, "iwarp": {"iwarp:::1", "iwarp:::1"}} {
		if r := runInContainer(t, onlyIPv6, "--protocol", protocol); r.Client != want[0] || r.Server != want[1] {
			t.Errorf("%s: expected devices %v, found %s and %s", protocol, want, r.Client, r.Server)
		}
	}
}

func TestDemoWithoutProc(t *testing.T) {
	r := runInContainer(t, func(lo netlink.Link) {
		hosttest.Must(t, netlink.LinkSetUp(lo))
		hosttest.Must(t, unix.Mount("none", "/proc", "tmpfs", 0, ""))
		if _, err := os.ReadDir("/proc/self"); err == nil {
			t.Error("/proc is still there")
		}
	})
	if r.Reason != "HOST_UNSUPPORTED" || len(r.Operations) != len(operations) {
		t.Errorf("expected the network stack alone with HOST_UNSUPPORTED, found %+v", r)
	}
}

func TestDemoWithLoopbackDownNamesRemedy(t *testing.T) {
	out, notes, code := inContainer(t, func(netlink.Link) {}, "demo")
	if code != cli.ExitFailed || out != "" || !strings.Contains(notes, "ip link set lo up") || strings.Contains(notes, "errno") {
		t.Errorf("code %d: expected a hint, found\n%s%s", code, out, notes)
	}
}
