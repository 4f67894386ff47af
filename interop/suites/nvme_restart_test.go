//go:build interop && linux

package suites

import (
	"encoding/json"
	"fmt"
	"testing"

	"softrdma/interop/peers"
)

// softrdma's host reads what it has written although Linux's target ends all connections again and again.
func TestNVMeHostSurvivesRestartsOfLinuxsTarget(t *testing.T) {
	l := openLab(t)
	g := l.Guests[0]
	variables := []string{"at=" + g.IPv4, "nqn=" + nvmeNQN}
	guestScript(t, g, nvmetServe, variables...)
	t.Cleanup(func() { guestScript(t, g, nvmetEnd, variables...) })
	const accesses, restarts = 100_000, 3
	p := peers.StartHost(within(t, 3*nvmeLimit), t, l, program(t, l, "cmd/softrdma"), "nvme", "bench", "-I", network{}.device(), "-n", nvmeNQN,
		"--rw", "randrw", "--verify", "--iters", fmt.Sprint(accesses), "--queues", "2", "-t", "16", "--json", g.IPv4)
	for restart := range restarts {
		guestScript(t, g, `
port=/sys/kernel/config/nvmet/ports/1/subsystems/$nqn
# Wait for packets.
packets=/sys/class/infiniband/rxe0/ports/1/hw_counters/rcvd_pkts
begun=$(cat $packets)
for i in $(seq 600); do
	[ $(cat $packets) -gt $((begun + 40000)) ] && break
	sleep .1
done
[ $i -lt 600 ]
rm $port
sleep 1
ln -s /sys/kernel/config/nvmet/subsystems/$nqn $port
`, variables...)
		select {
		case <-p.Done:
			t.Fatalf("it ended before restart %d: %v", restart+1, p.Err)
		default:
		}
	}
	p.Succeeds(t, 3*nvmeLimit)
	var report struct {
		Verified int64
		Lost     int64 `json:"connections_lost"`
	}
	if err := json.Unmarshal([]byte(p.Stdout), &report); err != nil || report.Verified == 0 || report.Lost < restarts {
		t.Errorf("it printed %s (%v), want at least %d connections lost", p.Stdout, err, restarts)
	}
	t.Log(p.Stdout)
}
