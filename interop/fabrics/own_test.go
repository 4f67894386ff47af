//go:build interop && linux

package fabrics

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestOwnAdministratorPassesOSMTest runs the test of OpenSM against the fabric's own manager.
// Its flow for QoS (-f q) wants tables that base ports 0 of switches do not have.
func TestOwnAdministratorPassesOSMTest(t *testing.T) {
	r := newRig(t, "--topology", "star:4")
	inventory := t.TempDir() + "/inventory"
	for _, x := range []struct{ flow, name string }{{"c", "Create Inventory"}, {"m", "Multicast"}, {"s", "Services Registration"}, {"a", "All Validations"}} {
		said := r.run("node-1", "osmtest", "-f", x.flow, "-i", inventory)
		if !strings.Contains(said, fmt.Sprintf("OSMTEST: TEST %q PASS", x.name)) {
			t.Errorf("-f %s: %s", x.flow, tail(said))
		}
	}
}

// TestNamesResolveByMulticast runs ibacm at two nodes, which resolve each other's names by a
// multicast group that they have joined, and paths by the subnet administrator.
func TestNamesResolveByMulticast(t *testing.T) {
	for _, manager := range []string{"own", "opensm"} {
		t.Run(manager, func(t *testing.T) {
			var r *rig
			if manager == "own" {
				r = newRig(t, "--topology", tree)
			} else {
				r = newRig(t, "--topology", tree, "--no-sm")
				r.opensm("node-0")
			}
			lids := r.lids()
			const near, far = "node-5", "node-9"
			r.acm(far)
			r.acm(near) // takes over the socket at which ib_acme asks
			end := fmt.Sprintf(`dlid: %s\n\s+slid: %s\n`, lids[far], lids[near])
			for _, query := range [][]string{{"-f", "n", "-s", near, "-d", far}, {"-f", "l", "-s", lids[near], "-d", lids[far], "-v"}} {
				r.eventually("a path", func() bool {
					p := r.start(append([]string{"ib_acme"}, query...)...)
					<-p.done
					return p.err == nil && regexp.MustCompile(end).MatchString(p.said.String())
				})
			}
			if said := r.run("node-1", "saquery", "--smkey", "1", "-m"); !strings.Contains(said, near) || !strings.Contains(said, far) {
				t.Errorf("the members of the groups: %s", tail(said))
			}
			group := find(t, r.run("node-1", "saquery", "MCMR"), `(?s)MGID\.*ff15:4001:.*?mlid\.*(0xc\w+)`)
			if said := r.run("node-1", "ibtracert", "-m", group, lids[near], lids[far]); !regexp.MustCompile(fmt.Sprintf("To ca .* %q", far)).MatchString(said) {
				t.Errorf("the multicast route: %s", said)
			}
			if said := r.run("node-1", "dump_mfts"); !strings.Contains(said, group) {
				t.Errorf("no table has %s: %s", group, tail(said))
			}
		})
	}
}

// acm runs ibacm at a node, which has the name of the node.
func (r *rig) acm(node string) {
	r.t.Helper()
	dir := r.t.TempDir()
	device := find(r.t, r.run(node, "ibstat", "-l"), `(\S+)`)
	writeFile(r.t, dir+"/addr", fmt.Sprintf("%s %s 1 default\n", node, device))
	writeFile(r.t, dir+"/opts", fmt.Sprintf("log_file stdout\nlog_level 2\nlock_file %s/lock\nserver_mode unix\nacme_plus_kernel_only no\n"+
		"addr_prot acm\nroute_prot sa\nprovider ibacmp default\n", dir))
	p := r.at(node, "stdbuf", "-oL", "ibacm", "-P", "-A", dir+"/addr", "-O", dir+"/opts")
	p.await("join successful")
	r.t.Cleanup(func() { _ = os.Remove("/run/ibacm-unix.sock") })
}
