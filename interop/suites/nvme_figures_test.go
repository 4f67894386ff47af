//go:build interop && linux

package suites

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"

	"softrdma/interop/lab"
	"softrdma/interop/peers"
)

// nvmetServe serves 64 MiB of a guest's memory by Linux's target on rxe0, nvmetEnd ends that.
const nvmetServe = `
modprobe nvmet-rdma
modprobe brd rd_nr=1 rd_size=65536
cd /sys/kernel/config/nvmet
mkdir subsystems/$nqn
echo 1 >subsystems/$nqn/attr_allow_any_host
mkdir subsystems/$nqn/namespaces/1
echo -n /dev/ram0 >subsystems/$nqn/namespaces/1/device_path
echo 1 >subsystems/$nqn/namespaces/1/enable
mkdir ports/1
echo rdma >ports/1/addr_trtype
echo ipv4 >ports/1/addr_adrfam
echo $at >ports/1/addr_traddr
echo 4420 >ports/1/addr_trsvcid
ln -s /sys/kernel/config/nvmet/subsystems/$nqn ports/1/subsystems/$nqn
`

const nvmetEnd = `
cd /sys/kernel/config/nvmet
rm ports/1/subsystems/$nqn
rmdir ports/1 subsystems/$nqn/namespaces/1 subsystems/$nqn
`

// devicesBack adds a guest's devices if they are not there.
const devicesBack = `
rdma link show rxe0/1 >/dev/null 2>&1 || { modprobe rdma_rxe; rdma link add rxe0 type rxe netdev eth0; }
rdma link show siw0/1 >/dev/null 2>&1 || rdma link add siw0 type siw netdev eth1
`

// nvmeFigures are what is measured, with fio's options.
var nvmeFigures = []struct{ name, options, unit string }{
	{"4 KiB read, 32 in flight", "--rw=randread --bs=4k --iodepth=32", "iops"},
	{"4 KiB write, 32 in flight", "--rw=randwrite --bs=4k --iodepth=32", "iops"},
	{"128 KiB read, 8 in flight", "--rw=read --bs=128k --iodepth=8", "bw_bytes"},
	{"128 KiB write, 8 in flight", "--rw=write --bs=128k --iodepth=8", "bw_bytes"},
}

// fioFigures attaches a disk in a guest and measures it.
func fioFigures(t *testing.T, g *lab.Guest, into [][]float64, variables ...string) {
	t.Helper()
	guestScript(t, g, `
modprobe nvme-rdma
nvme connect -t rdma -a $at -s 4420 -n $nqn
for i in $(seq 100); do ls /dev/nvme*n1 >/dev/null 2>&1 && break; sleep .1; done
`, variables...)
	for i, f := range nvmeFigures {
		said := guestScript(t, g, "fio --name=figure --filename=$(ls /dev/nvme*n1) --direct=1 --ioengine=libaio --ramp_time=1 --runtime=6 --time_based --output-format=json "+f.options)
		var result struct {
			Jobs []map[string]json.RawMessage
		}
		if err := json.Unmarshal([]byte(said), &result); err != nil || len(result.Jobs) != 1 {
			t.Fatalf("fio printed %q: %v", said, err)
		}
		best := 0.0
		for _, direction := range []string{"read", "write"} {
			var values map[string]any
			if err := json.Unmarshal(result.Jobs[0][direction], &values); err != nil {
				t.Fatal(err)
			}
			v, _ := values[f.unit].(float64)
			best = max(best, v)
		}
		into[i] = append(into[i], best)
	}
	guestScript(t, g, "nvme disconnect -n $nqn", variables...)
}

// What Linux's host gets from Linux's target and from softrdma's, both in the other guest and from its memory.
// NVME_FIGURES is the number of rounds.
func TestNVMeFigures(t *testing.T) {
	rounds, _ := strconv.Atoi(os.Getenv("NVME_FIGURES"))
	if rounds == 0 {
		t.Skip("SKIPPED: expected NVME_FIGURES, the number of rounds to measure")
	}
	l := ownLab(t, 2, lab.BenchProcessor)
	g, other := l.Guests[0], l.Guests[1]
	variables := []string{"at=" + other.IPv4, "nqn=" + nvmeNQN}
	softrdma := program(t, l, "cmd/softrdma")
	linux, ours := make([][]float64, len(nvmeFigures)), make([][]float64, len(nvmeFigures))
	for range rounds {
		guestScript(t, other, nvmetServe, variables...)
		fioFigures(t, g, linux, variables...)
		guestScript(t, other, nvmetEnd, variables...)

		guestScript(t, other, "rdma link del rxe0; modprobe -r rdma_rxe") // it has the port
		p := peers.StartGuest(t.Context(), t, other, softrdma, "nvme", "serve", "-a", other.IPv4, "-n", nvmeNQN, "--namespace", "memory,64M")
		if err := p.AwaitServing(t.Context()); err != nil {
			t.Fatal(err)
		}
		fioFigures(t, g, ours, variables...)
		p.Kill()
		<-p.Done
		guestScript(t, other, devicesBack)
	}
	median := func(v []float64) float64 {
		slices.Sort(v)
		return v[len(v)/2]
	}
	table := ""
	for i, f := range nvmeFigures {
		a, b := median(linux[i]), median(ours[i])
		table += fmt.Sprintf("| %s | %.4g | %.4g | %.2f |\n", f.name, a, b, b/a)
	}
	t.Logf("medians of %d rounds (nvmet-rdma, softrdma, ratio; IOPS and bytes/s):\n%s", rounds, table)
}
