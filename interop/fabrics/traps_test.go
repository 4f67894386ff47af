//go:build interop && linux

package fabrics

import (
	"fmt"
	"strings"
	"testing"
)

// TestTrapsOfKeysAndManagersReachOpenSM breaks rules of a subnet with an M_Key and two partitions,
// and starts a second manager. Its log shows the notices that opensm gets of that.
func TestTrapsOfKeysAndManagersReachOpenSM(t *testing.T) {
	r := newRig(t, "--topology", "star:4", "--no-sm")
	dir := t.TempDir()
	guid := func(node string) string { return strings.TrimSpace(r.run(node, "ibstat", "-p")) }
	writeFile(t, dir+"/partitions", fmt.Sprintf("Default=0x7fff,ipoib:ALL=full;\na=0x1,defmember=full:%s;\nb=0x2,defmember=full:%s;\n", guid("node-1"), guid("node-2")))
	// At protection level 2 a node does not answer requests with another M_Key (IBTA 14.2.4).
	writeFile(t, dir+"/conf", "m_key 0x77\nm_key_protection_level 2\nm_key_lease_period 0\n")
	args := []string{"-F", dir + "/conf", "-P", dir + "/partitions"}
	sm := r.opensm("node-0", append(args, "-p", "9")...)

	if p := r.at("node-1", "smpquery", "-y", "0x78", "-t", "200", "-D", "nodeinfo", "0,1"); waited(p) == nil {
		t.Errorf("a switch answers a question with another M_Key:\n%s", p.said.String())
	}
	sm.await("num:256")

	// The packets of a partition end at the switch, whose port to the other adapter has not its key.
	server := r.at("node-2", "stdbuf", "-oL", "ib_write_bw", "-F", "-n", "5", "--pkey_index", "1")
	server.await("Waiting for client")
	if p := r.at("node-1", "ib_write_bw", "-F", "-n", "5", "--pkey_index", "1", "127.0.0.1"); waited(p) == nil {
		t.Errorf("partition a reaches partition b:\n%s", p.said.String())
	}
	sm.await("num:259")

	second := r.at("node-3", append([]string{"opensm", "-f", "stdout", "-p", "1"}, args...)...)
	second.await("Entering STANDBY state")
	sm.await("num:144")
}

// waited waits for the end of a process, and returns how it has ended.
func waited(p *process) error {
	<-p.done
	return p.err
}
