//go:build interop && linux

package uverbs

import (
	"bytes"
	stdcontext "context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"softrdma/internal/fabric/attach"
	"softrdma/internal/fabric/fabrictest"
	"softrdma/internal/fabric/live"
)

// A lockedBuffer is the output of a program that is still running.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// background runs a program until the test ends.
func background(t *testing.T, c *exec.Cmd) *lockedBuffer {
	t.Helper()
	out := &lockedBuffer{}
	c.Stdout, c.Stderr = out, out
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Signal(syscall.SIGTERM)
		_ = c.Wait()
	})
	return out
}

// managedByOpenSM runs a fabric of three adapters without a manager, servers at two of them,
// and opensm at the first.
func managedByOpenSM(t *testing.T, lib string) (a, b *Server) {
	t.Helper()
	f := fabrictest.StartWith(t, "star:3", func(c *live.Config) { c.Manager = nil })
	a, b = newServer(t, "ib:"+f.Adapters[0]), newServer(t, "ib:"+f.Adapters[1])
	dir := t.TempDir()
	sm, _ := command(t.Context(), t, a, lib, "opensm", "-f", "stdout", "-D", "0x03")
	sm.Env = append(sm.Env, "OSM_CACHE_DIR="+dir, "OSM_TMP_DIR="+dir)
	sm.Cancel = func() error { return nil } // background ends it
	out := background(t, sm)
	eventually(t, "opensm's first sweep", func() bool { return strings.Contains(out.String(), "SUBNET UP") })
	return a, b
}

// The fabric's LIDs are, by opensm: 1 of the first adapter, 2 of the switch, 3 and 4 of the
// other adapters.
func TestOpenSMAndItsToolsManageAFabric(t *testing.T) {
	lib := library(t)
	a, b := managedByOpenSM(t, lib)
	ping, _ := command(t.Context(), t, a, lib, "ibping", "-S")
	background(t, ping)
	stat, _ := command(t.Context(), t, a, lib, "ibsysstat", "-S")
	background(t, stat)
	for _, x := range []struct{ args, words string }{
		{"ibv_devinfo -v", "PORT_ACTIVE (4)|port_lid:\t\t3|sm_lid:\t\t\t1|InfiniBand"},
		{"ibstat", "State: Active|Base lid: 3|SM lid: 1|Link layer: InfiniBand"},
		{"ibstatus", "4: ACTIVE|100 Gb/sec (4X EDR)"},
		{"ibaddr", "LID start 0x3 end 0x3"},
		{"ibnetdiscover", `"switch-0" base port 0 lid 2|"node-2" lid 4 4xEDR`},
		{"iblinkinfo", "Active/  LinkUp"},
		{"ibhosts", "node-2"},
		{"ibswitches", "switch-0"},
		{"sminfo", "sm lid 1|SMINFO_MASTER"},
		{"smpquery nodedesc 2", "switch-0"},
		{"smpquery -D portinfo 0,1,3", "LinkState:.......................Active"},
		{"smpquery pkeys 3 1", "0xffff"},
		{"ibroute 2", "4 valid lids"},
		{"ibtracert 3 4", "To ca|node-2"},
		{"dump_lfts", "switch-0"},
		{"perfquery 2 1", "PortXmitPkts"},
		{"perfquery -x 3 1", "PortXmitData"},
		{"perfquery -x 1 1", "PortXmitData"},
		{"ibqueryerrors -s LinkDownedCounter", "4 nodes checked, 0 bad nodes"},
		{"ibportstate 2 3 query", "LinkState:.......................Active"},
		{"ibportstate 2 3 disable", "PhysLinkState:...................Disabled"},
		{"ibportstate 2 3 enable", "PhysLinkState"},
		{"saquery", "NodeDescription.........node-2"},
		{"saquery -p --src-to-dst 3:4", "dlid....................4"},
		{"saquery -s", "IsSM ports"},
		{"saquery -g", "MGID"},
		{"saquery -x", "LinkRecord"},
		{"ibping -c 3 1", "3 packets transmitted, 3 received"},
		{"ibsysstat 1", "sysstat ping succeeded"},
	} {
		t.Run(x.args, func(t *testing.T) {
			ctx, cancel := stdcontext.WithTimeout(stdcontext.Background(), timeLimit)
			defer cancel()
			missing := x.words
			run := func() bool {
				c, out := command(ctx, t, b, lib, strings.Fields(x.args)...)
				begin := time.Now()
				err := c.Run()
				t.Logf("%v %v\n%s", time.Since(begin), err, out)
				missing = ""
				for _, w := range strings.Split(x.words, "|") {
					if !strings.Contains(out.String(), w) {
						missing += fmt.Sprintf(" %q", w)
					}
				}
				return err == nil && missing == ""
			}
			if strings.HasPrefix(x.args, "saquery") { // opensm sweeps after the port was enabled
				eventually(t, "what opensm knows", run)
			} else if !run() {
				t.Errorf("failed, or without%s", missing)
			}
		})
	}
}

// Programs connect by the LIDs that opensm has assigned.
func TestProgramsReachEachOtherByLID(t *testing.T) {
	if testing.Short() {
		t.Skip("seconds of real programs")
	}
	lib, all := library(t), engines(t)
	a, b := managedByOpenSM(t, lib)
	for _, line := range []string{
		"ibv_rc_pingpong -c", "ibv_rc_pingpong -e", "ibv_uc_pingpong -n 100", "ibv_ud_pingpong -n 100", "ibv_srq_pingpong",
		"ib_write_bw -F -n 100", "ib_write_lat -F -n 100", "ib_read_bw -F -n 100", "ib_send_bw -F -n 100", "ib_send_lat -F -n 100",
		"ib_send_lat -F -c UD -n 100", "ib_atomic_lat -F -n 100",
	} {
		args := strings.Fields(line)
		want := "iters"
		if strings.HasPrefix(line, "ib_") {
			want = "#bytes"
		}
		x := programPair{server: args, client: append(args[:len(args):len(args)], "127.0.0.1"), want: want}
		for engine, env := range all {
			t.Run(engine+" "+line, func(t *testing.T) {
				if _, err := x.meet(t, lib, env, a, b); err != nil {
					t.Error(err)
				}
			})
		}
		t.Run("program on one port "+line, func(t *testing.T) {
			if _, err := x.meet(t, lib, all["program"], b, b); err != nil {
				t.Error(err)
			}
		})
	}
}

// Programs on ports of a fabric on another host attach with the secret of their server. They are not
// told of it otherwise.
func TestProgramsOnPortsOfAnotherHost(t *testing.T) {
	lib, all := library(t), engines(t)
	secret := []byte("a secret of both hosts")
	f := fabrictest.StartRemote(t, "star:2", func(c *live.Config) { c.Remote.Secret = secret })
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, secret, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv(attach.SecretVariable, file)
	a, b := newServer(t, "ib:"+f.Adapters[0]), newServer(t, "ib:"+f.Adapters[1])
	t.Setenv(attach.SecretVariable, "")
	const peer = "10.77.0.1"
	for _, x := range []programPair{
		{[]string{"ibv_rc_pingpong", "-c"}, []string{"ibv_rc_pingpong", "-c", "127.0.0.1"}, "iters"},
		{[]string{"rping", "-s", "-a", peer, "-C", "10"}, []string{"rping", "-c", "-a", peer, "-C", "10", "-V", "-v"}, "rdma-ping-9"},
		{[]string{"ib_write_bw", "-R", "-F", "-n", "100"}, []string{"ib_write_bw", "-R", "-F", "-n", "100", peer}, "MsgRate"},
	} {
		for engine, env := range all {
			t.Run(engine+" "+x.client[0], func(t *testing.T) { x.run(t, lib, env, a, b) })
		}
		t.Run("program on one port "+x.client[0], func(t *testing.T) { x.run(t, lib, all["program"], a, a) })
	}
}

// The connection manager of a port is its server's, the queue pairs are the programs'.
func TestProgramsConnectOnPorts(t *testing.T) {
	if testing.Short() {
		t.Skip("seconds of real programs")
	}
	lib, all := library(t), engines(t)
	f := fabrictest.Start(t, "star:2")
	a, b := newServer(t, "ib:"+f.Adapters[0]), newServer(t, "ib:"+f.Adapters[1])
	const peer = "10.77.0.1"
	for _, x := range []programPair{
		{[]string{"rping", "-s", "-a", peer, "-C", "10"}, []string{"rping", "-c", "-a", peer, "-C", "10", "-V", "-v"}, "rdma-ping-9"},
		{[]string{"ucmatose", "-b", peer}, []string{"ucmatose", "-s", peer}, "return status 0"},
		{[]string{"udaddy", "-b", peer}, []string{"udaddy", "-s", peer}, "return status 0"},
		{[]string{"rstream", "-b", peer, "-S", "4096", "-C", "50"}, []string{"rstream", "-s", peer, "-S", "4096", "-C", "50"}, "custom"},
		{[]string{"ib_send_bw", "-R", "-F", "-n", "100"}, []string{"ib_send_bw", "-R", "-F", "-n", "100", peer}, "MsgRate"},
		{[]string{"mckey", "-b", peer, "-m", "224.1.2.3"}, []string{"mckey", "-b", "10.77.0.2", "-m", "224.1.2.3", "-s"}, "test complete"},
	} {
		for engine, env := range all {
			t.Run(engine+" "+x.client[0], func(t *testing.T) { x.run(t, lib, env, a, b) })
		}
		if x.client[0] != "mckey" { // which names its own address
			t.Run("program on one port "+x.client[0], func(t *testing.T) { x.run(t, lib, all["program"], a, a) })
		}
	}
}
