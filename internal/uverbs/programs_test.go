//go:build interop && linux

package uverbs

import (
	"bytes"
	stdcontext "context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"softrdma/internal/testenv"
)

// engines returns what programs need in their environment, for a device in the server's
// process and for one in their own. It builds the engine.
func engines(t testing.TB) map[string][]string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "engine.so")
	c := exec.Command("go", "build", "-buildmode=c-shared", "-trimpath", "-ldflags", engineFlags(t), "-o", path, "../../preload/engine")
	c.Env = append(os.Environ(), "CGO_ENABLED=1")
	if b, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", c, err, b)
	}
	return map[string][]string{"daemon": nil, "program": {"SOFTRDMA_ENGINE=" + path, "SOFTRDMA_ENGINE_REQUIRED=1", "SOFTRDMA_ENGINE_VERBOSE=1"}}
}

// engineFlags returns the linker's flags of the engine that is built for users. With others, Go would send
// SIGURG to threads of the program.
func engineFlags(t testing.TB) string {
	t.Helper()
	b, err := os.ReadFile("../../Makefile")
	m := regexp.MustCompile(`(?m)^ENGINE_LDFLAGS := (.+)$`).FindSubmatch(b)
	if err != nil || m == nil {
		t.Fatalf("no ENGINE_LDFLAGS in the Makefile: %v", err)
	}
	return string(m[1])
}

func TestProgramsFindTheDevice(t *testing.T) {
	ctx, cancel := stdcontext.WithTimeout(stdcontext.Background(), timeLimit)
	defer cancel()
	lib, s := library(t), newServer(t, "127.14.3.1")
	all := engines(t)
	for _, x := range []struct {
		engine string
		args   []string
		words  []string
	}{
		{"daemon", []string{"ibv_devices"}, []string{"rxe0"}},
		{"daemon", []string{"ibstat", "rxe0"}, []string{"State: Active", "Link layer: Ethernet"}},
		{"daemon", []string{"ibstatus"}, []string{"4: ACTIVE"}},
		{"daemon", []string{"ibv_devinfo", "-v"}, []string{"hca_id:\trxe0", "PORT_ACTIVE (4)", "::ffff:127.14.3.1, RoCE v2", "ATOMIC_HCA"}},
		{"program", []string{"ibv_devinfo", "-v"}, []string{"hca_id:\trxe0", "PORT_ACTIVE (4)", "::ffff:127.14.3.1, RoCE v2", "ATOMIC_HCA"}},
	} {
		c, out := command(ctx, t, s, lib, x.args...)
		c.Env = append(c.Env, all[x.engine]...)
		if err := c.Run(); err != nil {
			t.Fatalf("%v: %v\n%s", x.args, err, out)
		}
		for _, w := range x.words {
			if !strings.Contains(out.String(), w) {
				t.Errorf("%v: no %q in\n%s", x.args, w, out)
			}
		}
	}
	eventually(t, "nothing left", func() bool { return s.Count() == Counts{} })
}

// Each pair of programs runs on two devices, each with a server of its own, and on one
// address.
func TestProgramsRunUnchanged(t *testing.T) {
	if testing.Short() {
		t.Skip("seconds of real programs")
	}
	lib := library(t)
	const peer = "127.14.3.2"
	a, b := newServer(t, peer), newServer(t, "127.14.3.3")
	for name, env := range engines(t) {
		t.Run(name, func(t *testing.T) { runUnchanged(t, lib, env, peer, a, b) })
		if name == "program" {
			t.Run(name+" on one address", func(t *testing.T) { runUnchanged(t, lib, env, peer, a, a) })
		}
	}
}

// Programs open the raw sockets of RoCE v1 themselves.
func TestProgramsRunUnchangedOverEthernetFrames(t *testing.T) {
	if testing.Short() {
		t.Skip("seconds of real programs")
	}
	testenv.Root(t, "sends Ethernet frames")
	lib, env := library(t), engines(t)["program"]
	const peer = "127.14.3.4"
	a, b := newServer(t, "roce1:"+peer), newServer(t, "roce1:127.14.3.5")
	for _, mode := range []string{"auto", "off"} {
		env := append(env[:len(env):len(env)], "SOFTRDMA_SAME_HOST="+mode)
		t.Run("memory "+mode, func(t *testing.T) { runUnchanged(t, lib, env, peer, a, b) })
		t.Run("memory "+mode+" on one address", func(t *testing.T) { runUnchanged(t, lib, env, peer, a, a) })
	}
}

// runUnchanged runs pairs of programs on the devices of two servers, which may be one.
func runUnchanged(t *testing.T, lib string, env []string, peer string, a, b *Server) {
	for _, x := range []programPair{
		{[]string{"ibv_rc_pingpong", "-g", "0", "-c"}, []string{"ibv_rc_pingpong", "-g", "0", "-c", peer}, "1000 iters"},
		{[]string{"ibv_rc_pingpong", "-g", "0", "-e"}, []string{"ibv_rc_pingpong", "-g", "0", "-e", peer}, "1000 iters"},
		{[]string{"ibv_rc_pingpong", "-g", "0", "-N"}, []string{"ibv_rc_pingpong", "-g", "0", "-N", peer}, "1000 iters"},
		{[]string{"ibv_uc_pingpong", "-g", "1", "-n", "100"}, []string{"ibv_uc_pingpong", "-g", "3", "-n", "100", peer}, "100 iters"},
		{[]string{"ibv_ud_pingpong", "-g", "3", "-n", "100"}, []string{"ibv_ud_pingpong", "-g", "2", "-n", "100", peer}, "100 iters"},
		{[]string{"ibv_srq_pingpong", "-g", "0"}, []string{"ibv_srq_pingpong", "-g", "0", peer}, "1000 iters"},
		{[]string{"rping", "-s", "-a", peer, "-C", "10"}, []string{"rping", "-c", "-a", peer, "-C", "10", "-V", "-v"}, "rdma-ping-9"},
		{[]string{"ucmatose", "-b", peer}, []string{"ucmatose", "-s", peer}, "return status 0"},
		{[]string{"udaddy", "-b", peer}, []string{"udaddy", "-s", peer}, "return status 0"},
		{[]string{"rstream", "-b", peer, "-S", "4096", "-C", "50"}, []string{"rstream", "-s", peer, "-S", "4096", "-C", "50"}, "custom"},
		{[]string{"ib_write_lat", "-F", "-n", "100"}, []string{"ib_write_lat", "-F", "-n", "100", peer}, "t_typical"},
		{[]string{"ib_send_bw", "-x", "3", "-F", "-n", "100"}, []string{"ib_send_bw", "-x", "3", "-F", "-n", "100", peer}, "MsgRate"},
		{[]string{"ib_atomic_lat", "-F", "-n", "100"}, []string{"ib_atomic_lat", "-F", "-n", "100", peer}, "t_typical"},
		{[]string{"ib_read_bw", "-R", "-F", "-n", "100"}, []string{"ib_read_bw", "-R", "-F", "-n", "100", peer}, "MsgRate"},
	} {
		t.Run(strings.Join(x.client, " "), func(t *testing.T) { x.run(t, lib, env, a, b) })
	}
}

// The server accepts connections, and programs continue them. Programs with the other engine are
// peers, too.
func TestProgramsRunUnchangedOverIWARP(t *testing.T) { runUnchangedOverIWARP(t, "iwarp:") }

// With TLS the server keeps the connections, and relays their bytes.
func TestProgramsRunUnchangedOverIWARPWithTLS(t *testing.T) { runUnchangedOverIWARP(t, "tls+iwarp:") }

func runUnchangedOverIWARP(t *testing.T, prefix string) {
	if testing.Short() {
		t.Skip("seconds of real programs")
	}
	lib, all := library(t), engines(t)
	const peer = "127.14.3.6"
	a, b := newServer(t, prefix+peer), newServer(t, prefix+"127.14.3.7")
	for _, x := range []programPair{
		{[]string{"rping", "-s", "-a", peer, "-C", "10"}, []string{"rping", "-c", "-a", peer, "-C", "10", "-V", "-v"}, "rdma-ping-9"},
		{[]string{"ucmatose", "-b", peer}, []string{"ucmatose", "-s", peer}, "return status 0"},
		{[]string{"ib_write_bw", "-R", "-F", "-n", "100"}, []string{"ib_write_bw", "-R", "-F", "-n", "100", peer}, "MsgRate"},
		{[]string{"ib_read_bw", "-R", "-F", "-n", "100"}, []string{"ib_read_bw", "-R", "-F", "-n", "100", peer}, "MsgRate"},
		{[]string{"ib_write_lat", "-R", "-F", "-n", "100"}, []string{"ib_write_lat", "-R", "-F", "-n", "100", peer}, "t_typical"},
	} {
		for engine, env := range all {
			t.Run(engine+" "+x.client[0], func(t *testing.T) { x.run(t, lib, env, a, b) })
		}
		t.Run("program on one address "+x.client[0], func(t *testing.T) { x.run(t, lib, all["program"], a, a) })
		t.Run("both engines "+x.client[0], func(t *testing.T) {
			x := x
			x.server = append([]string{"env", "-u", "SOFTRDMA_ENGINE", "-u", "SOFTRDMA_ENGINE_REQUIRED"}, x.server...)
			x.run(t, lib, all["program"], a, b)
		})
	}
}

// setHostDir gives the test's devices a directory of their own in which those of a host find each
// other, and returns it.
func setHostDir(t *testing.T) string {
	t.Helper()
	dir := testenv.SocketDir(t)
	t.Setenv("SOFTRDMA_HOST_DIR", dir)
	return dir
}

// Where memory is required no packet takes the network, and no datagram is lost: these
// programs would wait for it forever.
func TestProgramsExchangeDatagramsThroughMemory(t *testing.T) {
	const peer = "127.14.3.20"
	setHostDir(t)
	t.Setenv("SOFTRDMA_SAME_HOST", "require")
	lib := library(t)
	a, b := newServer(t, peer), newServer(t, "127.14.3.21")
	for name, env := range engines(t) {
		for where, of := range map[string]*Server{"one address": a, "two addresses": b} {
			if name == "daemon" && of == a {
				continue // one device, whose loopback carries the datagrams
			}
			t.Run(name+", "+where, func(t *testing.T) {
				pingpong := []string{"ibv_ud_pingpong", "-g", "0", "-n", "100"}
				pair := programPair{pingpong, append(slices.Clone(pingpong), peer), "100 iters"}
				pair.run(t, lib, env, a, of)
			})
		}
	}
}

// maxAttempts limits how often programs run that fail by a race of their own.
const maxAttempts = 5

// A programPair is two programs that run against each other.
type programPair struct {
	server, client []string
	want           string // in what the client prints
}

// run runs both programs on the devices of two servers, again if they fail by a race of their own.
func (x *programPair) run(t *testing.T, lib string, env []string, a, b *Server) {
	t.Helper()
	race, err := x.meet(t, lib, env, a, b)
	for attempt := 1; race && attempt < maxAttempts; attempt++ {
		t.Logf("a race of the programs, attempt %d: %v", attempt, err)
		race, err = x.meet(t, lib, env, a, b)
	}
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "nothing left", func() bool { return a.Count() == Counts{} && b.Count() == Counts{} })
}

// meet runs both programs once. It reports whether they failed by a known race of their own, which
// they have on Linux too:
//   - A client of perftest 4.5 with -R that is refused before its server listens for the second
//     connection uses what it has freed, and crashes. The server then waits for it forever.
//   - rping of rdma-core 44 closes its event channel while a thread still reads events. If the
//     thread calls again after that, it ends the program.
func (x *programPair) meet(t *testing.T, lib string, env []string, a, b *Server) (race bool, _ error) {
	t.Helper()
	ctx, cancel := stdcontext.WithTimeout(stdcontext.Background(), 3*timeLimit)
	defer cancel()
	server, serverOut := command(ctx, t, a, lib, x.server...)
	server.Env = append(server.Env, env...)
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	client, out := x.connect(ctx, t, lib, env, b)
	if !client.ProcessState.Success() || !strings.Contains(out.String(), x.want) {
		cancel()
		_ = server.Wait()
		crashed := client.ProcessState.Sys().(syscall.WaitStatus).Signaled()
		return crashed && slices.Contains(x.client, "-R"), fmt.Errorf("client: %v\n%s\nserver:\n%s", client.ProcessState, out, serverOut)
	}
	if err := server.Wait(); err != nil {
		race := x.server[0] == "rping" && strings.Contains(serverOut.String(), "rdma_get_cm_event: Bad file descriptor")
		return race, fmt.Errorf("server: %w\n%s", err, serverOut)
	}
	return false, nil
}

// connect runs the client until it reaches the server, which does not report when it listens.
func (x *programPair) connect(ctx stdcontext.Context, t *testing.T, lib string, env []string, on *Server) (*exec.Cmd, *bytes.Buffer) {
	t.Helper()
	for end := time.Now().Add(timeLimit); ; time.Sleep(50 * time.Millisecond) {
		client, out := command(ctx, t, on, lib, x.client...)
		client.Env = append(client.Env, env...)
		err := client.Run()
		if client.ProcessState == nil {
			t.Fatal(err)
		}
		refused := strings.Contains(out.String(), "onnect") || strings.Contains(out.String(), "REJECTED")
		if err == nil || !refused || client.ProcessState.ExitCode() < 0 || time.Now().After(end) || ctx.Err() != nil {
			return client, out
		}
	}
}

// An extended completion queue has a function of its own that polls.
func TestProgramsPollExtendedQueues(t *testing.T) {
	if _, err := os.Stat("/usr/include/infiniband/verbs.h"); err != nil {
		testenv.Lacks(t, "libibverbs-dev")
	}
	lib, program := library(t), filepath.Join(t.TempDir(), "startpoll")
	if out, err := exec.Command("gcc", "-Wall", "-Werror", "-o", program, "testdata/startpoll.c", "-libverbs", "-ldl").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	s := newServer(t, "127.14.3.7")
	for name, env := range engines(t) {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := stdcontext.WithTimeout(stdcontext.Background(), 3*timeLimit)
			defer cancel()
			c, out := command(ctx, t, s, lib, program)
			c.Env = append(c.Env, env...)
			if err := c.Run(); err != nil || !strings.Contains(out.String(), "all completed") {
				t.Fatalf("%v\n%s", err, out)
			}
			receives := strings.Contains(out.String(), "ibv_start_poll is "+filepath.Base(lib))
			if receives != (name == "program") {
				t.Errorf("polling receives: %t\n%s", receives, out)
			}
		})
	}
}

// A library that is preloaded as well is called before libibverbs.
func TestProgramsPreloadOtherLibraries(t *testing.T) {
	lib, other := library(t), filepath.Join(t.TempDir(), "interposer.so")
	if out, err := exec.Command("gcc", "-Wall", "-Werror", "-fPIC", "-shared", "-o", other, "testdata/interposer.c", "-ldl").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	s := newServer(t, "127.14.3.10")
	ctx, cancel := stdcontext.WithTimeout(stdcontext.Background(), timeLimit)
	defer cancel()
	c, out := command(ctx, t, s, lib, "ibv_devices")
	c.Env = append(c.Env, "LD_PRELOAD="+lib+":"+other)
	if err := c.Run(); err != nil || !strings.Contains(out.String(), "traced") || !strings.Contains(out.String(), "rxe0") {
		t.Errorf("%v\n%s", err, out)
	}
}
