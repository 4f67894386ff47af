//go:build interop && linux

package fabrics

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"softrdma/interop/lab"
)

// The servers of pairs of programs run at far, the clients at near. Their way leads from one
// pod of the tree to another.
const near, far = "node-2", "node-14"

// meet runs a server, and a client that prints words, until both have ended with success.
func (r *rig) meet(serverLine, clientLine, words string) {
	r.t.Helper()
	perftest := strings.HasPrefix(serverLine, "ib_")
	var server, client *process
	r.eventually("a connection", func() bool { // nothing tells when a server listens
		if server == nil || perftest || ended(server) {
			if server != nil { // perftest's is lost with a client that came early
				server.signal(syscall.SIGKILL)
				<-server.done
			}
			server = r.at(far, append([]string{"stdbuf", "-oL"}, strings.Fields(serverLine)...)...)
		}
		if perftest {
			server.await("Waiting for client")
		}
		client = r.at(near, strings.Fields(clientLine)...)
		<-client.done
		return client.err == nil
	})
	if said := client.said.String(); !strings.Contains(said, words) {
		r.t.Errorf("no %q in:\n%s", words, tail(said))
	}
	server.succeeds()
}

// TestProgramsOfOtherLibrariesMoveDataByLID runs programs that take LIDs from their port, and
// exchange them over TCP. Among them are all kinds of requests that UCX makes of a device.
func TestProgramsOfOtherLibrariesMoveDataByLID(t *testing.T) {
	r := newRig(t, "--topology", tree, "--no-sm")
	needPrograms(t)
	r.opensm("node-0")
	port := end{r.lids()[far], "1"}
	read := func(r *rig) int { return 4 * (r.counter(port, "PortXmitData") + r.counter(port, "PortRcvData")) }
	before := read(r)
	run := func(line, words string, least int) {
		t.Run(line, func(t *testing.T) {
			r := r.within(t)
			program, options, _ := strings.Cut(line, " ")
			if strings.HasPrefix(line, "env") { // env VARIABLE PROGRAM OPTIONS, of which the client has those
				f := strings.Fields(line)
				program, options = strings.Join(f[:3], " "), strings.Join(f[3:], " ")
				r.meet(program, program+" 127.0.0.1 "+options, words)
			} else {
				r.meet(line, program+" "+options+" 127.0.0.1", words)
			}
			// What the programs tell each other over TCP, or through memory, would not be there.
			now := read(r)
			if got := now - before; got < least {
				t.Errorf("%d bytes crossed the link of %s, expected %d and more", got, far, least)
			}
			before = now
		})
	}
	for _, line := range []string{
		"ibv_srq_pingpong", "ib_atomic_bw -F -n 200", "ib_atomic_lat -F -A CMP_AND_SWAP -n 200", "ib_send_bw -F -c UC -n 200",
		"ib_send_bw -F -c UD -s 1024 -n 200", "ib_send_bw -F -c UD -s 1024 -g -n 200", "ib_send_bw -F --use-srq -q 4 -n 200", "ib_read_bw -F -q 8 -b -n 200",
	} {
		want, least := "#bytes", 200*8
		if strings.HasPrefix(line, "ibv") {
			want, least = "1000 iters", 1000*4096
		}
		run(line, want, least)
	}
	for _, x := range []struct{ transports, tests string }{
		{"rc_v,ud_v,self", "tag_lat tag_bw ucp_am_bw stream_bw ucp_put_bw ucp_get"}, {"ud_v,self", "tag_bw ucp_put_lat ucp_get"},
	} {
		for test := range strings.FieldsSeq(x.tests) {
			run("env UCX_TLS="+x.transports+" ucx_perftest -w 10 -n 200 -s 20000 -t "+test, "Final:", 200*20000)
		}
	}
	run("env UCX_TLS=rc_v,ud_v,self ucx_perftest -w 10 -n 200 -s 8 -t ucp_fadd", "Final:", 200*8)
}

func TestProgramsConnectByAddressesOfIPv6(t *testing.T) {
	r := newRig(t, "--topology", "star:15", "--network", "fd00:77::/64")
	r.eventually("active links", func() bool { return strings.Contains(r.fabric("status"), "15 active") })
	const addr = "fd00:77::f" // of node-14
	r.meet("rping -s -v -C 3 -a "+addr, "rping -c -v -C 3 -a "+addr, "ping data: rdma-ping-2: CDEFGH")
	r.meet("rstream -S 4096 -C 100 -f ip -b "+addr, "rstream -S 4096 -C 100 -s "+addr, "800k")
}

// needPrograms installs the programs of UCX and Open MPI.
func needPrograms(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	if err := lab.InstallPrograms(ctx); lab.IsLack(err) && !inCI() {
		t.Skip("SKIPPED: ", err)
	} else if err != nil {
		t.Fatal(err)
	}
}

// TestRanksOfOpenMPIExchangeOverAFabric runs a rank at each of three adapters. Their program
// checks what it receives: messages, collective operations and windows.
func TestRanksOfOpenMPIExchangeOverAFabric(t *testing.T) {
	r := newRig(t, "--topology", tree)
	needPrograms(t)
	program := t.TempDir() + "/exchange"
	if out, err := exec.CommandContext(t.Context(), "mpicc.openmpi", "-O1", "-o", program, "../suites/programs/testdata/exchange.c").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	r.eventually("active links", func() bool { return strings.Contains(r.fabric("status"), "48 active") })
	line := []string{"env", "UCX_TLS=rc_v,ud_v,self", "mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "-x", "UCX_TLS", "--mca", "pml", "ucx", "--mca", "osc", "ucx"}
	for i, node := range []string{near, "node-7", far} {
		if i > 0 {
			line = append(line, ":")
		}
		line = append(line, "-np", "1", r.softrdma, "exec", "-d", fmt.Sprint("ib:lab/", node), "--", program)
	}
	if said := r.start(line...).succeeds(); !strings.Contains(said, "3 ranks exchanged everything right") {
		t.Errorf("found %s", tail(said))
	}
}
