//go:build interop && linux

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"softrdma/preload"
)

// needPrograms skips where programs cannot be run.
func needPrograms(t *testing.T, names ...string) {
	t.Helper()
	if _, err := preload.Library(); err != nil {
		missing(t, "a build with the preloaded library")
	}
	for _, name := range names {
		if _, err := exec.LookPath(name); err != nil {
			missing(t, name)
		}
	}
}

// missing skips a test by the name of what it lacks, but not where everything
// is to be.
func missing(t *testing.T, what string) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatalf("%s is missing", what)
	}
	t.Skipf("SKIPPED: %s is missing", what)
}

func TestProgramsShareTheDevicesOfADaemon(t *testing.T) {
	needPrograms(t, "ibv_devices", "ibv_rc_pingpong")
	d, socket := startDaemon(t, "-d", "127.21.0.1", "-d", "127.21.0.2", "-v")
	if out := run(t, "exec", "--socket", socket, "--", "ibv_devices"); !strings.Contains(out, "rxe0") || !strings.Contains(out, "rxe1") {
		t.Errorf("devices:\n%s", out)
	}
	for _, devices := range [][2]string{{"rxe0", "rxe1"}, {"rxe1", "rxe1"}} {
		args := []string{"exec", "--socket", socket, "--", "ibv_rc_pingpong", "-g", "0", "-c", "-p", "18515", "-d"}
		bounce(t, func() *process { return start(t, append(args, devices[0])...) },
			func() *process { return start(t, append(args, devices[1], "127.0.0.1")...) })
	}
	if err := d.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if d.code() != 0 {
		t.Errorf("ended with %d: %s", d.code(), &d.stderr)
	}
	if left, err := os.ReadDir(filepath.Dir(socket)); err != nil || len(left) != 0 {
		t.Errorf("it left %v, %v", left, err)
	}
}

// A Go program and a C program on the devices of one daemon, either way, beside
// another pair of Go programs.
func TestGoAndCProgramsShareADaemon(t *testing.T) {
	needPrograms(t, "ibv_rc_pingpong")
	_, socket := startDaemon(t, "-d", "127.21.4.1", "-d", "127.21.4.2")
	perf := start(t, "perf", "write", "bw", "--keep", "-d", "daemon:"+socket+"/rxe0", "-p", "18562")
	perf.prints("waiting for a client")
	beside := start(t, "perf", "write", "bw", "-D", "3", "-d", "daemon:"+socket+"/rxe1", "-p", "18562", "127.0.0.1")
	c := func(device string) []string {
		return []string{"exec", "--socket", socket, "--", "ibv_rc_pingpong", "-g", "0", "-c", "-p", "18517", "-d", device}
	}
	own := func(device string) []string {
		return []string{"pingpong", "-c", "-p", "18517", "-d", "daemon:" + socket + "/" + device}
	}
	bounce(t, func() *process { return start(t, c("rxe0")...) }, func() *process { return start(t, append(own("rxe1"), "127.0.0.1")...) })
	bounce(t, func() *process { return start(t, own("rxe0")...) }, func() *process { return start(t, append(c("rxe1"), "127.0.0.1")...) })
	if beside.code() != 0 {
		t.Errorf("the pair beside them: %s%s", &beside.stdout, &beside.stderr)
	}
}

// Debian's rping and softrdma's connect on the devices of one daemon, either way.
func TestGoAndCProgramsConnectOnADaemon(t *testing.T) {
	needPrograms(t, "rping")
	_, socket := startDaemon(t, "-d", "127.21.5.1", "-d", "iwarp:127.21.5.2")
	for device, at := range map[string]string{"rxe0": "127.21.5.1", "siw0": "127.21.5.2"} {
		own := "daemon:" + socket + "/" + device
		server := start(t, "rping", "-s", "-a", own, "-p", "18581", "-V")
		server.prints("waiting for a client on " + at)
		c := start(t, "exec", "--socket", socket, "--", "rping", "-c", "-a", at, "-p", "18581", "-C", "20", "-V")
		if c.code() != 0 || server.code() != 0 {
			t.Errorf("%s: Debian's client: %s%s\nserver: %s%s", device, &c.stdout, &c.stderr, &server.stdout, &server.stderr)
		}
		debian := start(t, "exec", "--socket", socket, "--", "rping", "-s", "-a", at, "-p", "18582", "-C", "20", "-V")
		for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) { // it does not tell that it listens
			c = start(t, "rping", "-c", "-a", at, "-I", own, "-p", "18582", "-C", "20", "-V")
			if c.code() == 0 || time.Now().After(end) || !strings.Contains(c.stderr.String(), "nobody waits") {
				break
			}
		}
		if c.code() != 0 || !strings.Contains(c.stdout.String(), "20 pings of 64 bytes") || debian.code() != 0 {
			t.Errorf("%s: Debian's server: %s%s\nclient: %s%s", device, &debian.stdout, &debian.stderr, &c.stdout, &c.stderr)
		}
	}
}

// bounce runs a pingpong that checks its data, and starts the client until the
// server listens, which it tells nobody.
func bounce(t *testing.T, server, client func() *process) {
	t.Helper()
	a := server()
	for end := time.Now().Add(patience); ; {
		b := client()
		code := b.code()
		if code == 0 && strings.Contains(b.stdout.String(), "1000 iters") {
			break
		}
		early := strings.Contains(b.stderr.String(), "onnect") || strings.Contains(b.stderr.String(), "no pingpong waits")
		if code == 0 || time.Now().After(end) || !early {
			t.Fatalf("client: %d %s%s\nserver: %s%s", code, &b.stdout, &b.stderr, &a.stdout, &a.stderr)
		}
	}
	if a.code() != 0 {
		t.Errorf("server: %s%s", &a.stdout, &a.stderr)
	}
}

func TestProgramsWithoutTheirDaemonAreNotStarted(t *testing.T) {
	needPrograms(t)
	socket := filepath.Join(shortDir(t), "none")
	start(t, "exec", "--socket", socket, "--", "true").fails(exitFailed, "no daemon listens on "+socket, "softrdma daemon --socket "+socket)
	start(t, "exec", "--socket", socket, "-d", "lo", "--", "true").fails(exitUsage, "--socket")
}

func TestProgramsOfAllowedUsersAreServed(t *testing.T) {
	needPrograms(t, "ibv_devinfo")
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
		d, socket := startDaemon(t, append([]string{"-d", "127.21.2.1"}, c.allow...)...)
		if err := os.Chmod(filepath.Dir(socket), 0o755); err != nil {
			t.Fatal(err)
		}
		p := startAsNobody(t, "exec", "--socket", socket, "--", "ibv_devinfo")
		if p.code(); !strings.Contains(p.stdout.String()+p.stderr.String(), c.want) {
			t.Errorf("%v: no %q in\n%s%s", c.allow, c.want, &p.stdout, &p.stderr)
		}
		if err := d.cmd.Process.Signal(syscall.SIGINT); err != nil || d.code() != 0 {
			t.Errorf("%v: ended with %v, %d: %s", c.allow, err, d.code(), &d.stderr)
		}
	}
}

func TestProgramsOfTwoUsersTalk(t *testing.T) {
	needPrograms(t, "ibv_rc_pingpong")
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: only root starts programs of other users")
	}
	_, socket := startDaemon(t, "-d", "127.21.2.2", "--allow", "65534")
	if err := os.Chmod(filepath.Dir(socket), 0o755); err != nil {
		t.Fatal(err)
	}
	args := []string{"exec", "--socket", socket, "--", "ibv_rc_pingpong", "-g", "0", "-c", "-p", "18516"}
	bounce(t, func() *process { return startAsNobody(t, args...) }, func() *process { return start(t, append(args, "127.0.0.1")...) })
}

// A daemon that is killed takes its device with it, as hardware that is pulled
// out: programs are told, whatever they wait in, and do not hang.
func TestProgramsEndWhenTheirDaemonIsKilled(t *testing.T) {
	needPrograms(t, "ibv_asyncwatch", "rping", "ibv_rc_pingpong", "stdbuf")
	d, socket := startDaemon(t, "-d", "127.21.3.1")
	program := func(says string, args ...string) *process {
		p := start(t, append([]string{"exec", "--socket", socket, "--", "stdbuf", "-oL"}, args...)...)
		p.prints(says)
		return p
	}
	endless := []string{"ibv_rc_pingpong", "-g", "0", "-e", "-n", "1000000000", "-p", "18517"}
	programs := map[string]*process{
		"rdma_get_cm_event":   program("rdma_listen", "rping", "-s", "-d", "-a", "127.21.3.1", "-p", "7199"),
		"ibv_get_async_event": program("async event FD", "ibv_asyncwatch"),
		"ibv_get_cq_event":    program("local address", endless...),
	}
	polls := []string{"ibv_rc_pingpong", "-g", "0", "-n", "1000000000", "-p", "18519"}
	programs["ibv_poll_cq"] = program("local address", polls...)
	for call, args := range map[string][]string{"ibv_get_cq_event": endless, "ibv_poll_cq": polls} {
		programs["peer's "+call] = program("local address", append(args, "127.0.0.1")...)
		programs[call].prints("remote address")
	}
	if err := d.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for call, p := range programs {
		if p.code() == 0 {
			t.Errorf("who waited in %s ended with 0:\n%s%s", call, &p.stdout, &p.stderr)
		}
	}
	if out := programs["ibv_get_async_event"].stdout.String(); strings.Count(out, "IBV_EVENT_DEVICE_FATAL") != 1 {
		t.Errorf("ibv_asyncwatch printed %s", out)
	}
	if out := programs["rdma_get_cm_event"].stderr.String(); !strings.Contains(out, "Input/output error") {
		t.Errorf("rping printed %s", out)
	}
}

// A daemon that ends in order flushes what was posted: those who poll end too.
func TestProgramsThatPollEndWithTheirDaemon(t *testing.T) {
	needPrograms(t, "ibv_rc_pingpong", "stdbuf")
	d, socket := startDaemon(t, "-d", "127.21.3.2")
	args := []string{"exec", "--socket", socket, "--", "stdbuf", "-oL", "ibv_rc_pingpong", "-g", "0", "-n", "1000000000", "-p", "18518"}
	a := start(t, args...)
	a.prints("local address")
	b := start(t, append(args, "127.0.0.1")...)
	b.prints("remote address")
	if err := d.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if d.code() != 0 {
		t.Errorf("the daemon ended with %d: %s", d.code(), &d.stderr)
	}
	for _, p := range []*process{a, b} {
		if p.code() == 0 {
			t.Errorf("ended with 0:\n%s%s", &p.stdout, &p.stderr)
		}
	}
}

// The flag reaches the library, and a program that shares its memory runs with
// one that does not, whichever device is whose.
func TestProgramsShareMemoryOnRequest(t *testing.T) {
	needPrograms(t, "ibv_rc_pingpong", "sh")
	_, socket := startDaemon(t, "-d", "127.21.6.1", "-d", "127.21.6.2", "-v")
	args := []string{"exec", "--socket", socket}
	for _, share := range []bool{false, true} {
		want := "1"
		args := args
		if !share {
			want = "none"
		} else {
			args = append(args, "--share-memory")
		}
		if out := run(t, append(args, "--", "sh", "-c", "echo found ${SOFTRDMA_SHARE_MEMORY-none}")...); !strings.Contains(out, "found "+want) {
			t.Errorf("the flag is %v: %s", share, out)
		}
	}
	ping := []string{"--", "ibv_rc_pingpong", "-g", "0", "-c", "-s", "200000", "-p", "18519", "-d"}
	one := append(append(slices.Clone(args), "--share-memory"), ping...)
	bounce(t, func() *process { return start(t, append(one, "rxe0")...) }, func() *process { return start(t, append(one, "rxe1", "127.0.0.1")...) })
	other := append(slices.Clone(args), ping...)
	bounce(t, func() *process { return start(t, append(one, "rxe0")...) }, func() *process { return start(t, append(other, "rxe1", "127.0.0.1")...) })
}

func TestProgramsCaptureThatCannotBeWrittenIsAFailure(t *testing.T) {
	needPrograms(t, "true")
	start(t, "exec", "-d", loopbackDevice(t), "--pcap", "/dev/full", "--", "true").fails(exitFailed, "--pcap", "no space left")
}
