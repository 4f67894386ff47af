package hosttest

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// insideEnv marks a process that Inside started.
const insideEnv = "SOFTRDMA_TEST_NAMESPACE"

// Inside runs the calling test again in another process, as root in a new user and
// network namespace, and reports whether this is that process. The caller must return at
// once if it is not. Inside is for tests whose devices create sockets on several
// threads, or that start processes; other tests use InNamespace. If such namespaces are
// not permitted it skips the test, or fails it in CI.
func Inside(t *testing.T) bool {
	t.Helper()
	if os.Getenv(insideEnv) != "" {
		return true
	}
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), insideEnv+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	out, err := cmd.CombinedOutput()
	skipped, ci := strings.Contains(string(out), "--- SKIP:"), os.Getenv("CI") != ""
	var exit *exec.ExitError
	switch {
	case err == nil && !ci && skipped:
		t.Skipf("SKIPPED in its namespace:\n%s", out)
	case err == nil && !skipped:
		t.Logf("%s", out)
	case err != nil && !errors.As(err, &exit) && !ci:
		t.Skipf("SKIPPED: user and network namespaces are not permitted here: %v", err)
	default:
		t.Fatalf("%v\n%s", err, out)
	}
	return false
}
