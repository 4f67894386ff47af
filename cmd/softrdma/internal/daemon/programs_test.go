//go:build interop && linux

package daemon

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"softrdma/cmd/softrdma/internal/cli"
	"softrdma/cmd/softrdma/internal/clitest"
)

func TestProgramsShareDaemonDevices(t *testing.T) {
	clitest.NeedPrograms(t, "ibv_devices", "ibv_rc_pingpong")
	d, socket := clitest.StartDaemon(t, "-d", "127.21.0.1", "-d", "127.21.0.2", "-v")
	if out := clitest.Run(t, "exec", "--socket", socket, "--", "ibv_devices"); !strings.Contains(out, "rxe0") || !strings.Contains(out, "rxe1") {
		t.Errorf("devices:\n%s", out)
	}
	for _, devices := range [][2]string{{"rxe0", "rxe1"}, {"rxe1", "rxe1"}} {
		// Not 18515, the programs' default, which tests of another package use at the same time.
		args := []string{"exec", "--socket", socket, "--", "ibv_rc_pingpong", "-g", "0", "-c", "-p", "18520", "-d"}
		runPingpongPair(t, func() *clitest.Process { return clitest.Start(t, append(args, devices[0])...) },
			func() *clitest.Process { return clitest.Start(t, append(args, devices[1], "127.0.0.1")...) })
	}
	if err := d.Cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if d.ExitCode() != 0 {
		t.Errorf("ended with %d: %s", d.ExitCode(), &d.Stderr)
	}
	if left, err := os.ReadDir(filepath.Dir(socket)); err != nil || len(left) != 0 {
		t.Errorf("it left %v, %v", left, err)
	}
}

// A Go program on an address of the daemon and a C program on its device talk in both roles,
// beside another pair of Go programs.
func TestGoAndCProgramsShareADaemon(t *testing.T) {
	clitest.NeedPrograms(t, "ibv_rc_pingpong")
	_, socket := clitest.StartDaemon(t, "-d", "127.21.4.1", "-d", "127.21.4.2")
	perf := clitest.Start(t, "perf", "write", "bw", "--keep", "-d", "shared:"+socket+"/rxe0", "-p", "18562")
	perf.Prints("waiting for a client")
	pair := clitest.Start(t, "perf", "write", "bw", "-D", "3", "-d", "shared:"+socket+"/rxe1", "-p", "18562", "127.0.0.1")
	c := func(device string) []string {
		return []string{"exec", "--socket", socket, "--", "ibv_rc_pingpong", "-g", "0", "-c", "-p", "18517", "-d", device}
	}
	own := func(device string) []string {
		return []string{"pingpong", "-c", "-p", "18517", "-d", "shared:" + socket + "/" + device}
	}
	runPingpongPair(t, func() *clitest.Process { return clitest.Start(t, c("rxe0")...) }, func() *clitest.Process { return clitest.Start(t, append(own("rxe1"), "127.0.0.1")...) })
	runPingpongPair(t, func() *clitest.Process { return clitest.Start(t, own("rxe0")...) }, func() *clitest.Process { return clitest.Start(t, append(c("rxe1"), "127.0.0.1")...) })
	if pair.ExitCode() != 0 {
		t.Errorf("the other pair: %s%s", &pair.Stdout, &pair.Stderr)
	}
}

// Debian's rping on a daemon's device and softrdma's on one of its own connect in both roles.
func TestGoAndCProgramsConnectOnADaemon(t *testing.T) {
	clitest.NeedPrograms(t, "rping")
	_, socket := clitest.StartDaemon(t, "-d", "127.21.5.1", "-d", "iwarp:127.21.5.2")
	for prefix, at := range map[string]string{"": "127.21.5.1", "iwarp:": "127.21.5.2"} {
		const here = "127.21.5.3"
		server := clitest.Start(t, "rping", "-s", "-a", prefix+here, "-p", "18581", "-V")
		server.Prints("waiting for a client on " + here)
		c := clitest.Start(t, "exec", "--socket", socket, "--", "rping", "-c", "-a", here, "-I", at, "-p", "18581", "-C", "20", "-V")
		if c.ExitCode() != 0 || server.ExitCode() != 0 {
			t.Errorf("%s: Debian's client: %s%s\nserver: %s%s", prefix+at, &c.Stdout, &c.Stderr, &server.Stdout, &server.Stderr)
		}
		debian := clitest.Start(t, "exec", "--socket", socket, "--", "rping", "-s", "-a", at, "-p", "18582", "-C", "20", "-V")
		for end := time.Now().Add(clitest.Timeout); ; time.Sleep(20 * time.Millisecond) { // it prints nothing when it listens
			c = clitest.Start(t, "rping", "-c", "-a", at, "-I", prefix+here, "-p", "18582", "-C", "20", "-V")
			if c.ExitCode() == 0 || time.Now().After(end) || !strings.Contains(c.Stderr.String(), "nothing listens") {
				break
			}
		}
		if c.ExitCode() != 0 || !strings.Contains(c.Stdout.String(), "20 pings of 64 bytes") || debian.ExitCode() != 0 {
			t.Errorf("%s: Debian's server: %s%s\nclient: %s%s", prefix+at, &debian.Stdout, &debian.Stderr, &c.Stdout, &c.Stderr)
		}
	}
}

// runPingpongPair runs a pingpong that checks its data. It restarts the client until
// the server listens, because the server prints nothing then.
func runPingpongPair(t *testing.T, server, client func() *clitest.Process) {
	t.Helper()
	a := server()
	for end := time.Now().Add(clitest.Timeout); ; {
		b := client()
		code := b.ExitCode()
		if code == 0 && strings.Contains(b.Stdout.String(), "1000 iters") {
			break
		}
		early := strings.Contains(b.Stderr.String(), "onnect") || strings.Contains(b.Stderr.String(), "nothing listens")
		if code == 0 || time.Now().After(end) || !early {
			t.Fatalf("client: %d %s%s\nserver: %s%s", code, &b.Stdout, &b.Stderr, &a.Stdout, &a.Stderr)
		}
	}
	if a.ExitCode() != 0 {
		t.Errorf("server: %s%s", &a.Stdout, &a.Stderr)
	}
}

func TestProgramsWithoutTheirDaemonAreNotStarted(t *testing.T) {
	clitest.NeedPrograms(t)
	socket := filepath.Join(clitest.ShortDir(t), "none")
	clitest.Start(t, "exec", "--socket", socket, "--", "true").Fails(cli.ExitFailed, "no daemon listens on "+socket, "softrdma daemon --socket "+socket)
	clitest.Start(t, "exec", "--socket", socket, "-d", "lo", "--", "true").Fails(cli.ExitUsage, "--socket")
}

func TestProgramsOfAllowedUsersAreServed(t *testing.T) {
	clitest.NeedPrograms(t, "ibv_devinfo")
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: only root starts programs of other users")
	}
	for _, c := range []struct {
		allow []string
		want  string
	}{
		{[]string{"--mode", "666"}, "CLIENT_USER"},
		{[]string{"--allow", "65534"}, "hca_id:\trxe0"},
		{[]string{"--allow", "@65534"}, "hca_id:\trxe0"},
		{[]string{"--allow", "all"}, "hca_id:\trxe0"},
	} {
		d, socket := clitest.StartDaemon(t, append([]string{"-d", "127.21.2.1"}, c.allow...)...)
		if err := os.Chmod(filepath.Dir(socket), 0o755); err != nil {
			t.Fatal(err)
		}
		p := clitest.StartAsNobody(t, "exec", "--socket", socket, "--", "ibv_devinfo")
		if p.ExitCode(); !strings.Contains(p.Stdout.String()+p.Stderr.String(), c.want) {
			t.Errorf("%v: no %q in\n%s%s", c.allow, c.want, &p.Stdout, &p.Stderr)
		}
		if err := d.Cmd.Process.Signal(syscall.SIGINT); err != nil || d.ExitCode() != 0 {
			t.Errorf("%v: ended with %v, %d: %s", c.allow, err, d.ExitCode(), &d.Stderr)
		}
	}
}

func TestProgramsOfTwoUsersTalk(t *testing.T) {
	clitest.NeedPrograms(t, "ibv_rc_pingpong")
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: only root starts programs of other users")
	}
	_, socket := clitest.StartDaemon(t, "-d", "127.21.2.2", "--allow", "65534")
	if err := os.Chmod(filepath.Dir(socket), 0o755); err != nil {
		t.Fatal(err)
	}
	args := []string{"exec", "--socket", socket, "--", "ibv_rc_pingpong", "-g", "0", "-c", "-p", "18516"}
	runPingpongPair(t, func() *clitest.Process { return clitest.StartAsNobody(t, args...) }, func() *clitest.Process { return clitest.Start(t, append(args, "127.0.0.1")...) })
}

// Killing a daemon is like unplugging hardware: programs get an error, whatever call
// they wait in, and do not hang.
func TestProgramsEndWhenTheirDaemonIsKilled(t *testing.T) {
	clitest.NeedPrograms(t, "ibv_asyncwatch", "rping", "ibv_rc_pingpong", "stdbuf")
	d, socket := clitest.StartDaemon(t, "-d", "127.21.3.1")
	program := func(says string, args ...string) *clitest.Process {
		p := clitest.Start(t, append([]string{"exec", "--socket", socket, "--engine", "daemon", "--", "stdbuf", "-oL"}, args...)...)
		p.Prints(says)
		return p
	}
	endless := []string{"ibv_rc_pingpong", "-g", "0", "-e", "-n", "1000000000", "-p", "18517"}
	programs := map[string]*clitest.Process{
		"rdma_get_cm_event":   program("rdma_listen", "rping", "-s", "-d", "-a", "127.21.3.1", "-p", "7199"),
		"ibv_get_async_event": program("async event FD", "ibv_asyncwatch"),
		"ibv_get_cq_event":    program("local address", endless...),
	}
	polls := []string{"ibv_rc_pingpong", "-g", "0", "-n", "1000000000", "-p", "18519"}
	programs["ibv_poll_cq"] = program("local address", polls...)
	for call, args := range map[string][]string{"ibv_get_cq_event": endless, "ibv_poll_cq": polls} {
		programs["peer's "+call] = program("local address", append(args, "127.0.0.1")...)
		programs[call].Prints("remote address")
	}
	if err := d.Cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for call, p := range programs {
		if p.ExitCode() == 0 {
			t.Errorf("who waited in %s ended with 0:\n%s%s", call, &p.Stdout, &p.Stderr)
		}
	}
	if out := programs["ibv_get_async_event"].Stdout.String(); strings.Count(out, "IBV_EVENT_DEVICE_FATAL") != 1 {
		t.Errorf("ibv_asyncwatch printed %s", out)
	}
	if out := programs["rdma_get_cm_event"].Stderr.String(); !strings.Contains(out, "Input/output error") {
		t.Errorf("rping printed %s", out)
	}
}

// A daemon that ends in order flushes posted requests, so that programs that poll end
// too.
func TestProgramsThatPollEndWithTheirDaemon(t *testing.T) {
	clitest.NeedPrograms(t, "ibv_rc_pingpong", "stdbuf")
	d, socket := clitest.StartDaemon(t, "-d", "127.21.3.2")
	args := []string{"exec", "--socket", socket, "--engine", "daemon", "--", "stdbuf", "-oL", "ibv_rc_pingpong", "-g", "0", "-n", "1000000000", "-p", "18518"}
	a := clitest.Start(t, args...)
	a.Prints("local address")
	b := clitest.Start(t, append(args, "127.0.0.1")...)
	b.Prints("remote address")
	if err := d.Cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if d.ExitCode() != 0 {
		t.Errorf("the daemon ended with %d: %s", d.ExitCode(), &d.Stderr)
	}
	for _, p := range []*clitest.Process{a, b} {
		if p.ExitCode() == 0 {
			t.Errorf("ended with 0:\n%s%s", &p.Stdout, &p.Stderr)
		}
	}
}

func TestProgramsUnwritableCaptureFails(t *testing.T) {
	clitest.NeedPrograms(t, "true")
	clitest.Start(t, "exec", "-d", clitest.LoopbackDevice(t), "--pcap", "/dev/full", "--", "true").Fails(cli.ExitFailed, "--pcap", "no space left")
}

// A region that is longer than one user may have a daemon keep is refused by name.
func TestProgramsMemoryBeyondTheLimitIsRefused(t *testing.T) {
	clitest.NeedPrograms(t, "ibv_rc_pingpong")
	d, socket := clitest.StartDaemon(t, "-d", "127.21.7.1", "--client-memory", "3M", "-v")
	c := clitest.Start(t, "exec", "--socket", socket, "--engine", "daemon", "--", "ibv_rc_pingpong", "-g", "0", "-s", "8388608")
	if code := c.ExitCode(); code == 0 || !strings.Contains(c.Stderr.String(), "Couldn't register MR") {
		t.Errorf("%d: %s", code, &c.Stderr)
	}
	d.PrintsError("bytes of memory: CLIENT_LIMIT")
	if err := d.Cmd.Process.Signal(syscall.SIGTERM); err != nil || d.ExitCode() != 0 {
		t.Errorf("the daemon: %d, %s", d.ExitCode(), &d.Stderr)
	}
}

// Daemons of two users reach each other through memory: both require it.
func TestProgramsOnDaemonsOfTwoUsersShareMemory(t *testing.T) {
	clitest.NeedPrograms(t, "ibv_rc_pingpong")
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: only root can start processes of other users")
	}
	top := clitest.ShortDir(t)
	dir := filepath.Join(top, "host")
	if err := errors.Join(os.Chmod(top, 0o755), os.Mkdir(dir, 0o700), os.Chmod(dir, 0o777|os.ModeSticky)); err != nil {
		t.Fatal(err)
	}
	env := []string{"SOFTRDMA_HOST_DIR=" + dir}
	const one, other = 65534, 1
	program := func(uid uint32, allow string) func(args ...string) *clitest.Process {
		socket := filepath.Join(dir, "daemon-of-"+allow)
		d := clitest.StartAs(t, uid, env, "daemon", "--socket", socket, "-d", clitest.LoopbackDevice(t), "--same-host", "require", "--same-host-allow", allow)
		d.Prints("serving programs of")
		return func(args ...string) *clitest.Process {
			args = append([]string{"exec", "--socket", socket, "--engine", "daemon", "--", "ibv_rc_pingpong", "-g", "0", "-c", "-s", "100000", "-p", "18521"}, args...)
			return clitest.StartAs(t, uid, env, args...)
		}
	}
	server := program(one, fmt.Sprint(other))
	client := program(other, fmt.Sprint(one))
	runPingpongPair(t, func() *clitest.Process { return server() }, func() *clitest.Process { return client("127.0.0.1") })
}
