//go:build interop && linux

package fabrics

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"softrdma/interop/lab"
)

// The addresses of two hosts.
const (
	fabricHost  = "10.99.0.1"
	programHost = "10.99.0.2"
)

// newHosts makes two hosts, as network namespaces with a cable between them, and returns the
// commands that run others there. Both are gone after the test.
func newHosts(t *testing.T) (fabric, program []string) {
	t.Helper()
	var names []string
	for range 2 {
		holder := exec.Command("cat")
		keep, err := holder.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		holder.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
		if err := holder.Start(); err != nil {
			if os.Getenv("CI") != "true" {
				t.Skip("SKIPPED: a network namespace: ", err)
			}
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = keep.Close()
			_ = holder.Wait()
		})
		names = append(names, fmt.Sprint(holder.Process.Pid))
	}
	at := func(i int) []string { return []string{"nsenter", "--net=/proc/" + names[i] + "/ns/net", "--"} }
	for i, argv := range []string{
		"ip link set lo up",
		"ip link set lo up",
		"ip link add cable type veth peer name cable netns " + names[1],
		"ip addr add " + programHost + "/24 dev cable",
		"ip addr add " + fabricHost + "/24 dev cable",
		"ip link set cable up",
		"ip link set cable up",
	} {
		if _, err := lab.RunCommand(context.Background(), "", append(at(i%2), strings.Fields(argv)...)...); err != nil {
			t.Fatal(err)
		}
	}
	return at(0), at(1)
}

// TestProgramsAttachFromAnotherHost runs opensm, tools and programs on a host that reaches the
// fabric by UDP alone, with programs on the fabric's host as their peers.
func TestProgramsAttachFromAnotherHost(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	writeFile(t, secret, "a secret of both hosts")
	atFabric, atProgram := newHosts(t)
	near := newRigAt(t, atFabric, "--topology", "star:4", "--no-sm", "--attach", fabricHost+":7701", "--attach-secret", secret)
	far := near.within(t)
	far.host, far.device = atProgram, "ib:lab@"+fabricHost+"/"
	far.env = append(os.Environ(), "SOFTRDMA_FABRIC_DIR="+t.TempDir(), "SOFTRDMA_FABRIC_SECRET="+secret, "OSM_CACHE_DIR="+t.TempDir(), "OSM_TMP_DIR="+t.TempDir())
	sm := far.opensm("node-0")
	if said := far.run("node-1", "sminfo"); !strings.Contains(said, "state 3") {
		t.Errorf("sminfo: %s", said)
	}
	if said := far.run("node-1", "ibnetdiscover"); strings.Count(said, "\nCa\t4")+strings.Count(said, "\nCa\t1") != 4 {
		t.Errorf("ibnetdiscover: %s", tail(said))
	}

	const nodeOfServer, addr = "node-2", "10.77.0.3"
	server := near.at(nodeOfServer, "stdbuf", "-oL", "ibv_rc_pingpong", "-n", "500")
	server.await("local address:")
	if said := far.run("node-3", "ibv_rc_pingpong", "-n", "500", fabricHost); !strings.Contains(said, "500 iters") {
		t.Errorf("ibv_rc_pingpong: %s", tail(said))
	}
	server.succeeds()

	server = far.at("node-3", "stdbuf", "-oL", "ib_write_bw", "-F", "-n", "500")
	server.await("Waiting for client")
	near.run(nodeOfServer, "ib_write_bw", "-F", "-n", "500", programHost)
	server.succeeds()

	server = near.at(nodeOfServer, "rping", "-s", "-v", "-C", "3", "-a", addr)
	var client *process
	far.eventually("a connection", func() bool { // nothing tells when rping listens
		client = far.at("node-3", "rping", "-c", "-v", "-C", "3", "-a", addr)
		<-client.done
		return client.err == nil
	})
	if said := client.said.String(); !strings.Contains(said, "ping data: rdma-ping-2: CDEFGH") {
		t.Errorf("rping: %s", tail(said))
	}
	server.succeeds()

	// A program that vanishes takes its port down, and opensm hears of it. The next one brings it up.
	lost := far.at("node-3", "stdbuf", "-oL", "ibv_rc_pingpong")
	lost.await("local address:")
	lost.signal(syscall.SIGKILL)
	near.up.await("FABRIC_REMOTE_SILENT")
	far.eventually("three adapters", func() bool { return !strings.Contains(far.run("node-1", "ibnetdiscover"), "node-3") })
	far.run("node-3", "ibstat")
	far.eventually("four adapters", func() bool { return strings.Contains(far.run("node-1", "ibnetdiscover"), "node-3") })
	if ended(sm) {
		t.Errorf("opensm ended: %v: %s", sm.err, tail(sm.said.String()))
	}
}
