//go:build interop && linux

package exec

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"softrdma/cmd/softrdma/internal/clitest"
	"softrdma/internal/testenv"
)

// squat makes a directory and listens in it, as another user, until its standard input ends. It prints how
// many programs have connected.
const squat = `
import os, select, socket, sys
os.mkdir(sys.argv[1], 0o755)
s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
s.bind(sys.argv[1] + "/socket"); os.chmod(sys.argv[1] + "/socket", 0o777); s.listen(64)
print("listens", flush=True)
kept = []
while True:
    ready = select.select([s, sys.stdin], [], [])[0]
    if sys.stdin in ready: break
    kept.append(s.accept()[0])
os.unlink(sys.argv[1] + "/socket"); os.rmdir(sys.argv[1])
bytes = sum(len(c.recv(65536, socket.MSG_DONTWAIT)) for c in kept if select.select([c], [], [], 0)[0])
print(bytes)
`

// When a server on demand has ended, another user can make its directory again. A program that knows the
// place sends nothing there, and starts a server elsewhere.
func TestPlaceOfAnEndedServerIsNotTrusted(t *testing.T) {
	testenv.Root(t, "runs a process of another user")
	clitest.NeedPrograms(t, "python3", "setpriv")
	a := clitest.LoopbackDevice(t)
	again := startAgain(t, a)
	dir := directory(t, a)
	stop(t, a, unix.SIGTERM)
	squatter := exec.CommandContext(t.Context(), "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "python3", "-c", squat, dir)
	squatter.Env, squatter.Stderr = []string{"PATH=/usr/bin:/bin"}, os.Stderr
	end, err := squatter.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	said, err := squatter.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := squatter.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(said)
	if line, err := lines.ReadString('\n'); line != "listens\n" {
		t.Fatalf("found %q (%v)", line, err)
	}
	again()
	if now := directory(t, a); now == dir {
		t.Errorf("the server is in %s", now)
	}
	if err := end.Close(); err != nil {
		t.Error(err)
	}
	if line, err := lines.ReadString('\n'); line != "0\n" {
		t.Errorf("the other user got %q bytes (%v)", line, err)
	}
	if err := squatter.Wait(); err != nil {
		t.Error(err)
	}
	stop(t, a, unix.SIGTERM)
}

// A server on demand ends before a shell does, so env never names it.
func TestEnvNamesNoServerOnDemand(t *testing.T) {
	testenv.Root(t, "makes a network namespace")
	clitest.NeedPrograms(t, "bash", "ibv_devices", "unshare", "ip")
	out := inShell(t, "", `unshare --net bash -c 'ip link set lo up; ibv_devices; unset LD_PRELOAD SOFTRDMA_START; "$0" env' "$0"`)
	if !strings.Contains(out, "rxe0") || !strings.Contains(out, "export SOFTRDMA_START=") || strings.Contains(out, "SOFTRDMA_SOCKET") {
		t.Errorf("found\n%s", out)
	}
}

// Programs of one environment wait until the server of another ends that has their device.
func TestServersOfOneDeviceFollowEachOther(t *testing.T) {
	clitest.NeedPrograms(t, "bash", "ibv_devices")
	a, b := clitest.LoopbackDevice(t), clitest.LoopbackDevice(t)
	inShell(t, fmt.Sprintf("-d %s -d %s", a, b), "ibv_devices")
	out := inShell(t, "-d "+a, "ibv_devices")
	if !strings.Contains(out, "rxe0") || strings.Contains(out, "rxe1") {
		t.Errorf("found\n%s", out)
	}
	stop(t, a, unix.SIGTERM)
}

func TestEnvRefusesACacheThatNoProgramCanName(t *testing.T) {
	c := exec.CommandContext(t.Context(), clitest.Command(t), "env")
	c.Env = append(os.Environ(), "XDG_CACHE_HOME="+t.TempDir()+"/a b")
	if out, err := c.CombinedOutput(); err == nil || !strings.Contains(string(out), "set XDG_CACHE_HOME") {
		t.Errorf("%v\n%s", err, out)
	}
}
