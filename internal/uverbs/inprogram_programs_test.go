//go:build interop && linux

package uverbs

import (
	stdcontext "context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"softrdma/internal/fabric/fabrictest"
	"softrdma/internal/reason"
	"softrdma/internal/testenv"
	"softrdma/verbs"
)

// inProgram are C programs of testdata, each of which has its device in its own process.
type inProgram struct {
	lib, dir string
	env      []string
	s        *Server
}

func newInProgram(t *testing.T, addr string) *inProgram {
	t.Helper()
	return &inProgram{lib: library(t), dir: t.TempDir(), env: engines(t)["program"], s: newServer(t, addr)}
}

// compile compiles a program of testdata.
func (p *inProgram) compile(t *testing.T, name string, flags ...string) string {
	t.Helper()
	if _, err := os.Stat("/usr/include/infiniband/verbs.h"); err != nil {
		testenv.Lacks(t, "libibverbs-dev")
	}
	if _, err := os.Stat("/usr/include/rdma/rdma_cma.h"); err != nil && slices.Contains(flags, "-lrdmacm") {
		testenv.Lacks(t, "librdmacm-dev")
	}
	out := filepath.Join(p.dir, name+strings.Join(flags, ""))
	args := append([]string{"-O1", "-Wall", "-Wextra", "-Werror", "-D_GNU_SOURCE", "-o", out, "testdata/inprogram/" + name + ".c"}, flags...)
	if b, err := exec.Command("gcc", append(args, "-libverbs", "-lpthread")...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, b)
	}
	return out
}

// run runs a program and returns how it ended, and what it printed.
func (p *inProgram) run(t *testing.T, env []string, args ...string) (syscall.WaitStatus, string) {
	t.Helper()
	ctx, cancel := stdcontext.WithTimeout(stdcontext.Background(), 3*timeLimit)
	defer cancel()
	c, out := command(ctx, t, p.s, p.lib, args...)
	c.Env = append(append(c.Env, p.env...), env...)
	c.WaitDelay = time.Second
	if err := c.Run(); ctx.Err() != nil || c.ProcessState == nil {
		t.Fatalf("%v: %v\n%s", args, err, out)
	}
	eventually(t, "nothing left", func() bool { return p.s.Count() == Counts{} })
	return c.ProcessState.Sys().(syscall.WaitStatus), out.String()
}

// succeeds runs a program and returns what it printed.
func (p *inProgram) succeeds(t *testing.T, args ...string) string {
	t.Helper()
	status, out := p.run(t, nil, args...)
	if status != 0 {
		t.Fatalf("%v: %v\n%s", args, ending(status), out)
	}
	return out
}

func ending(s syscall.WaitStatus) string {
	if s.Signaled() {
		return s.Signal().String()
	}
	return fmt.Sprint("exit code ", s.ExitStatus())
}

// Each device that a program opens is in its process, and devices that cannot be are the server's.
func TestProgramsOpenEveryDevice(t *testing.T) {
	t.Run("all in the program", func(t *testing.T) {
		p := newInProgram(t, "127.14.4.30 127.14.4.31 127.14.4.32")
		out := p.succeeds(t, p.compile(t, "devices"))
		for _, want := range []string{"rxe0 is in the program\n", "rxe1 is in the program\n", "rxe2 is in the program\n", "3 devices: ok"} {
			if strings.Count(out, want) != 1 {
				t.Errorf("expected %q once\n%s", want, out)
			}
		}
	})
	t.Run("without the right to send frames", func(t *testing.T) {
		testenv.Root(t, "sends Ethernet frames")
		p := newInProgram(t, "roce1:127.14.4.39")
		without := []string{"setpriv", "--bounding-set=-all", "--inh-caps=-all", "ibv_devinfo"}
		status, out := p.run(t, []string{"SOFTRDMA_ENGINE_REQUIRED=0"}, without...)
		if status != 0 || strings.Count(out, "the device is not in this program: ") != 1 || !strings.Contains(out, "CAP_NET_RAW") || !strings.Contains(out, "hca_id:\trxe0") {
			t.Errorf("%s\n%s", ending(status), out)
		}
		if status, out := p.run(t, nil, without...); status == 0 || !strings.Contains(out, "the device cannot be in this program: ") {
			t.Errorf("required: %s\n%s", ending(status), out)
		}
	})
	t.Run("of several protocols", func(t *testing.T) {
		p := newInProgram(t, "127.14.4.33 iwarp:127.14.4.34")
		out := p.succeeds(t, "ibv_devinfo")
		for _, want := range []string{"rxe0 is in the program\n", "siw0 is in the program\n", "hca_id:\trxe0", "hca_id:\tsiw0"} {
			if strings.Count(out, want) != 1 {
				t.Errorf("expected %q once\n%s", want, out)
			}
		}
	})
}

// A program may write over its arguments and environment, or clear them, before it opens its device.
func TestProgramsChangeTheirEnvironment(t *testing.T) {
	p := newInProgram(t, "127.14.4.35")
	path := p.compile(t, "environment")
	for engine, env := range engines(t) {
		p.env = env
		for _, mode := range []string{"title", "long", "clear", "empty", "cut", "unset"} {
			t.Run(engine+" "+mode, func(t *testing.T) { p.succeeds(t, path, mode) })
		}
	}
}

// The directories of devices are where Linux has those of rxe, and programs find their files there.
func TestProgramsFindTheRealPathsOfDevices(t *testing.T) {
	p := newInProgram(t, "127.14.4.37")
	const want = "/sys/devices/virtual/infiniband_verbs/uverbs0 231:192\n"
	for _, flag := range []string{"-O1", "-D_FORTIFY_SOURCE=2"} {
		if out := p.succeeds(t, p.compile(t, "realpath", flag), "/sys/class/infiniband_verbs/uverbs0"); out != want {
			t.Errorf("%s: found %q, expected %q", flag, out, want)
		}
	}
	const script = `readlink -f "$0/rxe0"; ls -l "$0" 2>&1 | grep -v total | sed "s/.*rxe0 ->/rxe0 ->/"; cat "$(readlink -f $0/rxe0)/ports/1/state"`
	out := p.succeeds(t, "sh", "-c", script, "/sys/class/infiniband")
	if want := "/sys/devices/virtual/infiniband/rxe0\nrxe0 -> ../../devices/virtual/infiniband/rxe0\n4: ACTIVE\n"; out != want {
		t.Errorf("found %q, expected %q", out, want)
	}
}

// The counters are read from the server when a program looks at them. What it finds is at most as old as
// lifespan says.
func TestProgramsReadHardwareCounters(t *testing.T) {
	p := newInProgram(t, "127.14.4.38")
	p.s.devices[0].Adapter.Trace.Refuse(0, reason.Detail{Reason: reason.NoReceive})
	const script = `sleep $(printf .%03d $(cat "$0/lifespan")); cat "$0/send_rnr_err"; cd "$0"; cat lifespan`
	if out := p.succeeds(t, "sh", "-c", script, "/sys/class/infiniband/rxe0/ports/1/hw_counters"); out != "1\n10\n" {
		t.Errorf("found %q", out)
	}
}

func TestProgramsKeepErrnoWhenCallsSucceed(t *testing.T) {
	p := newInProgram(t, "127.14.4.36")
	path := p.compile(t, "errno")
	for engine, env := range engines(t) {
		t.Run(engine, func(t *testing.T) {
			p.env = env
			p.succeeds(t, path)
		})
	}
}

func TestProgramsUnmapRegisteredMemory(t *testing.T) {
	p := newInProgram(t, "127.14.4.1")
	out := p.succeeds(t, p.compile(t, "faults"))
	for _, what := range []string{"unmapped", "protected", "truncated", "coming and going"} {
		if !strings.Contains(out, what+": ok") {
			t.Errorf("%s: not tried\n%s", what, out)
		}
	}
}

// A thread that waits for an event receives for a moment, and then leaves that to the engine.
func TestProgramsWaitForEvents(t *testing.T) {
	p := newInProgram(t, "127.14.4.22")
	out := p.succeeds(t, p.compile(t, "events"))
	for _, what := range []string{"at once", "asleep", "nonblocking", "interrupted"} {
		if !strings.Contains(out, what+": ok") {
			t.Errorf("%s: not tried\n%s", what, out)
		}
	}
}

// UCX's threads poll under a spin lock. One that yielded would give its processor to another that spins.
func TestProgramsThatPollInTurnDoNotYield(t *testing.T) {
	p := newInProgram(t, "127.14.4.29")
	path := p.compile(t, "yields")
	line := regexp.MustCompile(`(?m)^(alone|in turn|alone again): (\d+) yields in (\d+) polls$`)
	for engine, env := range engines(t) {
		t.Run(engine, func(t *testing.T) {
			p.env = env
			out := p.succeeds(t, path)
			m := line.FindAllStringSubmatch(out, -1)
			if len(m) != 3 {
				t.Fatal(out)
			}
			for _, x := range m {
				yields, _ := strconv.Atoi(x[2])
				polls, _ := strconv.Atoi(x[3])
				if x[1] == "in turn" && yields > polls/1000 || x[1] != "in turn" && yields < polls/1000 {
					t.Error(x[0])
				}
			}
		})
	}
}

func TestProgramsKeepTheirSignals(t *testing.T) {
	p := newInProgram(t, "127.14.4.2")
	path := p.compile(t, "signals")
	for _, mode := range []string{"storm", "queued", "jump", "wait", "state", "fault"} {
		t.Run(mode, func(t *testing.T) { p.succeeds(t, path, mode) })
	}
	for mode, want := range map[string]string{"crash": "segmentation fault", "pipe": "broken pipe", "exit": "exit code 7"} {
		t.Run(mode, func(t *testing.T) {
			if status, out := p.run(t, nil, path, mode); ending(status) != want {
				t.Errorf("expected %s, found %s\n%s", want, ending(status), out)
			}
		})
	}
}

// eachProtocol runs a test with a device of each protocol whose queue pairs programs connect by
// themselves.
func eachProtocol(t *testing.T, addr string, test func(t *testing.T, device string)) {
	t.Run("RoCE v2", func(t *testing.T) { test(t, addr) })
	t.Run("RoCE v1", func(t *testing.T) {
		testenv.Root(t, "sends Ethernet frames")
		test(t, "roce1:"+addr)
	})
	t.Run("InfiniBand", func(t *testing.T) { test(t, "ib:"+fabrictest.Start(t, "star:2").Adapters[0]) })
}

func TestProgramsStartProcesses(t *testing.T) {
	eachProtocol(t, "127.14.4.3", func(t *testing.T, device string) {
		p := newInProgram(t, device)
		path := p.compile(t, "fork")
		for _, mode := range []string{"children", "grandchildren", "programs", "descriptors", "daemon"} {
			t.Run(mode, func(t *testing.T) { p.succeeds(t, path, mode) })
		}
	})
}

// A child that lives on when the program and its server have ended does not keep the address.
func TestProgramsLeaveNobodyTheAddress(t *testing.T) {
	eachProtocol(t, "127.14.4.21", leavesNobody)
}

func leavesNobody(t *testing.T, device string) {
	var child int
	t.Run("program", func(t *testing.T) {
		p := newInProgram(t, device)
		status, out := p.run(t, nil, p.compile(t, "fork"), "left")
		m := regexp.MustCompile(`(?m)^left (\d+)$`).FindStringSubmatch(out)
		if m == nil {
			t.Fatalf("%v\n%s", ending(status), out)
		}
		child, _ = strconv.Atoi(m[1])
	})
	if child == 0 {
		return
	}
	dev, err := verbs.Open(device, verbs.Config{})
	if err != nil {
		t.Error(err)
	} else if err := dev.Close(); err != nil {
		t.Error(err)
	}
	if err := syscall.Kill(child, syscall.SIGKILL); err != nil {
		t.Errorf("the child of the program has ended: %v", err)
	}
}

// A program may close a channel of the connection manager while a thread waits for its events.
func TestProgramsCloseAChannelThatAThreadWaitsFor(t *testing.T) {
	const addr = "127.14.4.13"
	p := newInProgram(t, addr)
	p.succeeds(t, p.compile(t, "channel", "-lrdmacm"), addr)
}

// A set-user-ID program must not get the device, or the memory, of the program that starts it.
func TestProgramsStartSetUserIDPrograms(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: only root makes programs of other users")
	}
	p := newInProgram(t, "127.14.4.14")
	const nobody = 65534
	secure := p.compile(t, "secure")
	if err := os.Chown(secure, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(secure, os.ModeSetuid|0o755); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{p.compile(t, "fork"), "other", secure}, {p.compile(t, "fork"), "replaced", secure}, {secure}} {
		if out := p.succeeds(t, args...); !strings.Contains(out, "no device") {
			t.Errorf("%v: %s", args, out)
		}
	}
}

// plugin compiles what programs load that are not linked to libibverbs.
func (p *inProgram) plugin(t *testing.T) string {
	t.Helper()
	return p.compile(t, "plugin", "-shared", "-fPIC")
}

func TestProgramsUnloadTheLibraries(t *testing.T) {
	p := newInProgram(t, "127.14.4.15")
	p.succeeds(t, p.compile(t, "reopen", "-Wl,--as-needed"), p.plugin(t))
}

func TestProgramsEndWithTrafficInFlight(t *testing.T) {
	p := newInProgram(t, "127.14.4.4")
	path := p.compile(t, "ends")
	for mode, want := range map[string]string{
		"exit": "exit code 3", "_exit": "exit code 3", "quick_exit": "exit code 3", "thread": "exit code 3",
		"exec": "exit code 3", "abort": "aborted", "kill": "killed",
	} {
		t.Run(mode, func(t *testing.T) {
			for range 5 {
				if status, out := p.run(t, nil, path, mode); ending(status) != want {
					t.Fatalf("expected %s, found %s\n%s", want, ending(status), out)
				}
			}
		})
	}
}

func TestProgramsLimitThemselves(t *testing.T) {
	p := newInProgram(t, "127.14.4.5")
	path := p.compile(t, "limits")
	modes := []string{"threads", "many", "stacks", "descriptors", "memory", "undumpable"}
	if os.Geteuid() == 0 {
		modes = append(modes, "chroot", "setuid")
	}
	for _, mode := range modes {
		t.Run(mode, func(t *testing.T) { p.succeeds(t, path, mode) })
	}
}

// A program gets what the device says that it can have, of each kind alone, and has mappings left
// for itself: each queue is mapped twice in its process.
func TestProgramsMakeAllObjectsThatTheDeviceAdvertises(t *testing.T) {
	p := newInProgram(t, "127.14.4.23")
	path := p.compile(t, "objects")
	for _, kind := range []string{"pairs", "queues", "regions", "shared"} {
		t.Run(kind, func(t *testing.T) {
			if out := p.succeeds(t, path, kind); !strings.HasSuffix(out, " "+kind+": ok\n") {
				t.Errorf("expected %s, found %s", kind, out)
			}
		})
	}
}

// Variables of Go belong to programs in Go.
func TestProgramsWithVariablesOfGo(t *testing.T) {
	p := newInProgram(t, "127.14.4.6")
	path := p.compile(t, "limits")
	for _, env := range []string{"GOGC=off", "GOMAXPROCS=1", "GOMEMLIMIT=1", "GODEBUG=asyncpreemptoff=0,cgocheck=1", "GOTRACEBACK=crash"} {
		if status, out := p.run(t, []string{env}, path); status != 0 {
			t.Errorf("%s: %s\n%s", env, ending(status), out)
		}
	}
}

// Where the engine cannot run, the device is in the server's process.
func TestProgramsDenyTheEngineWhatItNeeds(t *testing.T) {
	p := newInProgram(t, "127.14.4.7")
	path := p.compile(t, "filter")
	for _, x := range []struct{ mode, why string }{
		{"container", ""}, {"memfd", "denies memfd_create"}, {"datagrams", "denies bind"}, {"addresses", "RLIMIT_AS"},
	} {
		t.Run(x.mode, func(t *testing.T) {
			status, out := p.run(t, []string{"SOFTRDMA_ENGINE_REQUIRED=0"}, path, x.mode)
			if status != 0 || !strings.Contains(out, x.why) || strings.Contains(out, "is not in this program") != (x.why != "") {
				t.Errorf("expected %q, found %s\n%s", x.why, ending(status), out)
			}
			if status, out = p.run(t, nil, path, x.mode); (status == 0) != (x.why == "") {
				t.Errorf("the engine is required: %s\n%s", ending(status), out)
			}
		})
	}
}

func TestProgramsWithSanitizers(t *testing.T) {
	p := newInProgram(t, "127.14.4.8")
	env := []string{"ASAN_OPTIONS=verify_asan_link_order=0:detect_leaks=0"}
	for _, flag := range []string{"-fsanitize=address", "-fsanitize=thread"} {
		for _, name := range []string{"faults", "limits"} {
			if status, out := p.run(t, env, p.compile(t, name, flag)); status != 0 {
				t.Errorf("%s with %s: %s\n%s", name, flag, ending(status), out)
			}
		}
	}
}

func TestProgramsUnderValgrind(t *testing.T) {
	p := newInProgram(t, "127.14.4.9")
	p.succeeds(t, "valgrind", "-q", p.compile(t, "limits"))
}

func TestProgramsWithAllocators(t *testing.T) {
	p := newInProgram(t, "127.14.4.10")
	for _, x := range []struct{ library, debian string }{
		{"libjemalloc.so.2", "libjemalloc2"}, {"libtcmalloc_minimal.so.4", "libtcmalloc-minimal4"},
	} {
		found, err := filepath.Glob("/usr/lib/*/" + x.library)
		if err != nil {
			t.Fatal(err)
		}
		if len(found) == 0 {
			testenv.Lacks(t, x.debian)
		}
		allocator := found[0]
		for _, args := range [][]string{{p.compile(t, "faults")}, {p.compile(t, "limits"), "threads"}, {p.compile(t, "fork"), "children"}} {
			if status, out := p.run(t, []string{"LD_PRELOAD=" + p.lib + ":" + allocator}, args...); status != 0 {
				t.Errorf("%v with %s: %s\n%s", args, allocator, ending(status), out)
			}
		}
	}
}

func TestProgramsInOtherLanguages(t *testing.T) {
	p := newInProgram(t, "127.14.4.11")
	t.Run("Go", func(t *testing.T) {
		p.compile(t, "limits") // skips the test if verbs.h is missing
		path := filepath.Join(p.dir, "gohost")
		c := exec.Command("go", "build", "-o", path, "./testdata/inprogram/gohost")
		c.Env = append(os.Environ(), "CGO_ENABLED=1")
		if b, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, b)
		}
		p.succeeds(t, path)
	})
	t.Run("Java", func(t *testing.T) {
		const jna = "/usr/share/java/jna.jar"
		if _, err := os.Stat(jna); err != nil {
			testenv.Lacks(t, "libjna-java")
		}
		if _, err := exec.LookPath("javac"); err != nil {
			testenv.Lacks(t, "default-jdk-headless")
		}
		if b, err := exec.Command("javac", "-cp", jna, "-d", p.dir, "testdata/inprogram/Host.java").CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, b)
		}
		for _, options := range [][]string{{}, {"-Xint"}, {"-Xcheck:jni", "-XX:+UseSerialGC"}} {
			args := slices.Concat([]string{"java"}, options, []string{"-cp", jna + ":" + p.dir, "Host", p.plugin(t)})
			if out := p.succeeds(t, args...); !strings.Contains(out, "rxe0: ok") {
				t.Errorf("%v: %s", options, out)
			}
		}
	})
	t.Run("Python", func(t *testing.T) {
		if exec.Command(python, "-c", "import pyverbs").Run() != nil {
			testenv.Lacks(t, "python3-pyverbs")
		}
		if out := p.succeeds(t, python, "testdata/inprogram/signals.py"); !strings.Contains(out, "ok") {
			t.Error(out)
		}
	})
}

// A thread of Go that does not block a signal takes it from a program that waits for it.
func TestProgramsHaveThreadsOfGoThatBlockSignals(t *testing.T) {
	p := newInProgram(t, "127.14.4.12")
	out := p.succeeds(t, p.compile(t, "limits"), "masks")
	n := 0
	for line := range strings.Lines(out) {
		var tid int
		var mask uint64
		if k, _ := fmt.Sscanf(line, "thread %d blocks %x", &tid, &mask); k != 2 {
			continue
		}
		n++
		for _, s := range []syscall.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM, syscall.SIGCHLD, syscall.SIGPROF, syscall.SIGURG, syscall.SIGPIPE} {
			if mask&(1<<(s-1)) == 0 {
				t.Errorf("thread %d: %v is not blocked, found %#x", tid, s, mask)
			}
		}
	}
	if n < 3 {
		t.Errorf("%d threads of Go\n%s", n, out)
	}
}
