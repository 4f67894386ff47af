//go:build interop && linux

package fabrics

import (
	"fmt"
	"strconv"
	"testing"
)

// TestBothPathsOfAnLMCCarry sends WRITEs to each of the two LIDs of an adapter. The managers
// route them by different spines, and the counters of the spines show which one has carried.
func TestBothPathsOfAnLMCCarry(t *testing.T) {
	const twoLevels = "fat-tree:k=4,levels=2"
	for _, manager := range []string{"own", "opensm"} {
		t.Run(manager, func(t *testing.T) {
			var r *rig
			if manager == "own" {
				r = newRig(t, "--topology", twoLevels, "--lmc", "1")
			} else {
				r = newRig(t, "--topology", twoLevels, "--no-sm")
				r.opensm("node-1", "-l", "1")
			}
			base, err := strconv.Atoi(find(t, r.run("node-7", "ibaddr", "-L"), `LID start (\d+) end \d+`))
			if err != nil {
				t.Fatal(err)
			}
			if last := find(t, r.run("node-7", "ibaddr", "-L"), `LID start \d+ end (\d+)`); last != fmt.Sprint(base+1) {
				t.Fatalf("node-7 has LIDs %d to %s, expected 2", base, last)
			}
			carried := make(map[string]bool)
			for lid := base; lid <= base+1; lid++ {
				spine := find(t, r.fabric("trace", "node-0", fmt.Sprint(lid)), `(spine-\d)`)
				carried[spine] = true
				r.sendTo(lid, spine)
			}
			if len(carried) != 2 {
				t.Errorf("both LIDs are routed by %v", carried)
			}
		})
	}
}

// sendTo sends from node-0 to a LID of node-7, which has to cross one spine and not the other.
func (r *rig) sendTo(lid int, spine string) {
	r.t.Helper()
	const messages, size = 500, 65536
	spines := map[string]string{}
	for _, s := range []string{"spine-0", "spine-1"} {
		spines[s] = find(r.t, r.run("node-2", "saquery", "-l", s), `(?m)^(\d+)$`)
	}
	read := func(spine string) int {
		n, err := strconv.Atoi(find(r.t, r.run("node-2", "perfquery", "-x", "-a", spines[spine]), `PortRcvData:\.*(\d+)`))
		if err != nil {
			r.t.Fatal(err)
		}
		return n
	}
	before := map[string]int{"spine-0": read("spine-0"), "spine-1": read("spine-1")}
	args := []string{"ib_write_bw", "-F", "-s", fmt.Sprint(size), "-n", fmt.Sprint(messages)}
	server := r.at("node-7", append([]string{"stdbuf", "-oL"}, args...)...)
	server.await("Waiting for client")
	r.run("node-0", append(args, "--dlid", fmt.Sprint(lid), "127.0.0.1")...)
	server.succeeds()
	const words = messages * size / 4
	for s, old := range before {
		got := read(s) - old
		// Acknowledgements and management take the other spine, perhaps.
		if s == spine && got < words || s != spine && got > words/10 {
			r.t.Errorf("%s has received %d words, the %d words to LID %d go by %s", s, got, words, lid, spine)
		}
	}
}
