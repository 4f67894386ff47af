//go:build interop && linux

package exec

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"softrdma/cmd/softrdma/internal/clitest"
	"softrdma/internal/testenv"
)

// compileFirst compiles the program of testdata/first.c.
func compileFirst(t *testing.T) string {
	t.Helper()
	clitest.NeedPrograms(t, "bash", "gcc")
	path := filepath.Join(t.TempDir(), "first")
	if b, err := exec.Command("gcc", "-O1", "-D_GNU_SOURCE", "-o", path, "testdata/first.c", "-lpthread").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, b)
	}
	return path
}

// stop ends the servers of a device, so that the next program starts one.
func stop(t *testing.T, device string, sig unix.Signal) (n int) {
	t.Helper()
	for _, pid := range servers(t, device) {
		if unix.Kill(pid, sig) == nil {
			n++
		}
		for deadline := time.Now().Add(envTime); running(pid); time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("process %d has not ended", pid)
			}
		}
	}
	return n
}

// running reports whether a process has not ended. When its first thread has ended, others may still hold
// its sockets.
func running(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, state, _ := strings.Cut(string(text), ") ")
	threads, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	return err == nil && (len(threads) > 1 || !strings.HasPrefix(state, "Z"))
}

func TestStartOfAServerChangesNothingElseInPrograms(t *testing.T) {
	first, a := compileFirst(t), clitest.LoopbackDevice(t)
	for _, kind := range []string{"plain", "children", "ignored", "blocked", "closed", "threads", "fork", "clearenv"} {
		t.Run(kind, func(t *testing.T) {
			for range 2 { // starts the server, and joins it
				if out := inShell(t, "-d "+a, first+" "+kind); out != "" {
					t.Errorf("found %q", out)
				}
			}
			if n := stop(t, a, unix.SIGKILL); n != 1 {
				t.Errorf("%d servers, expected one", n)
			}
		})
	}
	for kind, want := range map[string]string{"clone": "Operation not permitted", "execve": "Operation not permitted", "close_range": ""} {
		stop(t, a, unix.SIGKILL)
		out := inShell(t, "-d "+a, first+" "+kind+" 2>&1")
		if want == "" && out != "found\n" || want != "" && (!strings.Contains(out, "softrdma: no RDMA device: cannot run") ||
			!strings.Contains(out, want) || strings.Count(out, "\n") != 2) {
			t.Errorf("%s denied: found %q, expected %q", kind, out, want)
		}
	}
	stop(t, a, unix.SIGKILL)
}

// startAgain starts a program that has found the device. Again lets it look once more, and waits for its
// end.
func startAgain(t *testing.T, device string) (again func()) {
	t.Helper()
	c := shell(t, "-d "+device, compileFirst(t)+" again")
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var report strings.Builder
	c.Stderr = &report
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "found\n" {
		t.Errorf("found %q (%v)", line, err)
	}
	return func() {
		t.Helper()
		if _, err := io.WriteString(in, "\n"); err != nil {
			t.Error(err)
		}
		if err := c.Wait(); err != nil {
			t.Errorf("%v: %s", err, report.String())
		}
	}
}

// A program that has used a server that was killed since starts another one.
func TestProgramStartsTheNextServerItself(t *testing.T) {
	a := clitest.LoopbackDevice(t)
	again := startAgain(t, a)
	stop(t, a, unix.SIGKILL)
	again()
	stop(t, a, unix.SIGTERM)
}

// programsKilled is how many programs TestManyProgramsAndKillsLeaveNothing starts.
const programsKilled = 1000

// Programs start, end and are killed, and then servers as well. In the end nothing is there.
func TestManyProgramsAndKillsLeaveNothing(t *testing.T) {
	first, a := compileFirst(t), clitest.LoopbackDevice(t)
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil { // as a container's PID 1
		t.Fatal(err)
	}
	defer func() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0) }()
	variables := strings.Split(strings.TrimSpace(inShell(t, "-d "+a, first+` plain; env | grep -E "^(LD_PRELOAD|SOFTRDMA_)"`)), "\n")
	zombies(t)
	before := descriptors(t, a)
	<-startAndKill(t, first, variables)
	for deadline := time.Now().Add(envTime); descriptors(t, a) > before; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("the server has %d descriptors, %d before", descriptors(t, a), before)
		}
	}
	if left := zombies(t); left > 0 {
		t.Errorf("%d children have ended and wait to be reaped, expected none: programs join the server by themselves", left)
	}
	kills := 0
	for done := startAndKill(t, first, variables); done != nil; {
		select {
		case <-done:
			done = nil
		case <-time.After(500 * time.Millisecond):
			for _, pid := range servers(t, a) {
				if unix.Kill(pid, unix.SIGKILL) == nil {
					kills++
				}
			}
		}
	}
	if out := inShell(t, "-d "+a, first+" plain"); out != "" {
		t.Errorf("in the end: %s", out)
	}
	ends(t, a)
	// A program that is killed while it waits for its server leaves two.
	if left := zombies(t); left > kills+1+programsKilled/10 {
		t.Errorf("%d children have ended and wait to be reaped, expected one for each of %d servers", left, kills+1)
	}
}

// startAndKill runs half of the programs, and kills every second one. It returns a channel that is closed in
// the end.
func startAndKill(t *testing.T, program string, variables []string) <-chan struct{} {
	var all sync.WaitGroup
	const workers = 8
	for worker := range workers {
		r := rand.New(rand.NewPCG(1, uint64(worker)))
		all.Go(func() {
			for range programsKilled / 2 / workers {
				c := exec.Command(program, "plain")
				c.Env = append(os.Environ(), variables...)
				if err := c.Start(); err != nil {
					t.Error(err)
					return
				}
				if r.IntN(2) == 0 {
					time.Sleep(time.Duration(r.IntN(5000)) * time.Microsecond)
					_ = c.Process.Kill()
				}
				_ = c.Wait() // or the program found no device, as its server was killed
			}
		})
	}
	done := make(chan struct{})
	go func() { all.Wait(); close(done) }()
	return done
}

// descriptors returns how many the server of a device has.
func descriptors(t *testing.T, device string) (n int) {
	t.Helper()
	for _, pid := range servers(t, device) {
		list, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
		n += len(list)
	}
	return n
}

// zombies reaps the children of this process that have ended, and returns how many there were.
func zombies(t *testing.T) (n int) {
	t.Helper()
	for {
		pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil)
		if pid <= 0 || err != nil {
			return n
		}
		n++
	}
}

// directory returns the directory of the server of a device.
func directory(t *testing.T, device string) string {
	t.Helper()
	pids := servers(t, device)
	if len(pids) != 1 {
		t.Fatalf("found servers %v, expected one", pids)
	}
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pids[0]))
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range files {
		if to, _ := os.Readlink(fd); strings.Contains(to, "/softrdma-env-0-") {
			return to
		}
	}
	t.Fatalf("found no directory of server %d", pids[0])
	return ""
}

func TestDirectoryOfAnotherUserIsNotUsed(t *testing.T) {
	testenv.Root(t, "makes a directory of another user")
	clitest.NeedPrograms(t, "bash", "ibv_devices")
	a := clitest.LoopbackDevice(t)
	inShell(t, "-d "+a, "ibv_devices")
	dir := directory(t, a)
	stop(t, a, unix.SIGTERM)
	if err := os.Mkdir(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := os.Chown(dir, 65534, 65534); err != nil {
		t.Fatal(err)
	}
	out := inShell(t, "-d "+a, `ibv_devices; ls -d /tmp/softrdma-env-0-*`)
	if !strings.Contains(out, "rxe0") || !strings.Contains(out, "/tmp/"+filepath.Base(dir)) {
		t.Errorf("found\n%s", out)
	}
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("%s has %v", dir, left)
	}
	stop(t, a, unix.SIGTERM)
}

func TestNetworkNamespacesHaveTheirOwnServers(t *testing.T) {
	testenv.Root(t, "makes a network namespace")
	clitest.NeedPrograms(t, "bash", "ibv_devices", "unshare", "ip")
	out := inShell(t, "", `ibv_devices; unshare --net bash -c "ip link set lo up; ip addr add 10.9.8.7/32 dev lo; ibv_devices; ip link del lo 2>/dev/null; cat /sys/class/infiniband/rxe0/ports/1/gids/0; ls -d /dev/shm/softrdma-env-0-*"`)
	if strings.Count(out, "rxe0") != 2 || strings.Count(out, "/dev/shm/softrdma-env-0-") < 2 {
		t.Errorf("found\n%s", out)
	}
}

// Programs of another C library run, and are told why they find no device.
func TestProgramsOfMuslRunWithoutADevice(t *testing.T) {
	clitest.NeedPrograms(t, "bash", "musl-gcc")
	source := filepath.Join(t.TempDir(), "program.c")
	if err := os.WriteFile(source, []byte(`
#include <fcntl.h>
#include <stdio.h>
int main(void)
{
	FILE *f = fopen("/proc/self/comm", "r");
	char line[64] = "";
	printf("%d ", open("/dev/infiniband/uverbs0", O_RDWR));
	printf("%d ", open("/sys/class/infiniband/rxe0/node_type", O_RDONLY));
	return !f || printf("%s", fgets(line, sizeof(line), f)) < 0;
}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	program := strings.TrimSuffix(source, ".c")
	if b, err := exec.Command("musl-gcc", "-o", program, source).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, b)
	}
	const why = "no RDMA device: expected a program that uses glibc 2.17 or later, found another C library, such as musl"
	if out := inShell(t, "-d "+clitest.LoopbackDevice(t), program+" 2>&1"); out != "softrdma: "+why+"\n-1 -1 program\n" {
		t.Errorf("found %q", out)
	}
	p := clitest.Start(t, "exec", "-v", "-d", clitest.LoopbackDevice(t), "--", program)
	p.PrintsError("itself finds no device: its C library is musl")
	if code := p.ExitCode(); code != 0 || string(p.Output()) != "-1 -1 program\n" {
		t.Errorf("found %q, code %d", p.Output(), code)
	}
}

// costLimit is how much longer a program that uses no RDMA may take to start.
const costLimit = 2 * time.Millisecond

func TestProgramsWithoutRDMAStartAsFast(t *testing.T) {
	clitest.NeedPrograms(t, "bash", "true")
	with := strings.Split(strings.TrimSpace(inShell(t, "-d "+clitest.LoopbackDevice(t), `env`)), "\n")
	var times [2][]time.Duration
	for range 100 {
		for i, variables := range [][]string{os.Environ(), with} {
			c := exec.Command("true")
			c.Env = variables
			began := time.Now()
			if err := c.Run(); err != nil {
				t.Fatal(err)
			}
			times[i] = append(times[i], time.Since(began))
		}
	}
	for i := range times {
		slices.Sort(times[i])
	}
	if without, with := times[0][50], times[1][50]; with > without+costLimit {
		t.Errorf("true takes %v, and %v with a device", without, with)
	} else {
		t.Logf("true takes %v, and %v with a device", without, with)
	}
}
