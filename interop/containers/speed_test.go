//go:build interop && linux

package containers

import (
	"regexp"
	"strconv"
	"testing"
)

// leastRatio is the least bandwidth of programs in two containers, of that of the same programs under
// softrdma exec in the same containers.
const leastRatio = .95

// rounds is how often each measurement is made, in turn. The best one counts, because others use the
// processors.
const rounds = 4

// underExec comes before a program that is not to use the device of its container.
const underExec = "env -u LD_PRELOAD -u SOFTRDMA_START -u SOFTRDMA_ENGINE /opt/softrdma/softrdma exec -- "

// again repeats a client that came before its server listened.
func again(client string) string {
	return "for i in 1 2 3 4 5 6 7 8 9; do " + client + " && exit; sleep .3; done; exit 1"
}

func TestContainersAreAsFastAsExec(t *testing.T) {
	if !*enabled {
		t.Skip("make containers runs it: it measures for some minutes, and needs idle processors")
	}
	if !inside(t) {
		return
	}
	e := newEngine(t)
	const ucx = "ucx_perftest -t tag_bw -s 1048576 -n 1000 "
	for _, p := range []struct {
		name, program string
		bandwidth     *regexp.Regexp
		flags         []string
	}{
		{"ib_write_bw", "ib_write_bw -n 5000 ", regexp.MustCompile(`(?m)^ 65536 +\d+ +[\d.]+ +([\d.]+)`), nil},
		{"ucx_perftest", ucx, regexp.MustCompile(`(?m)^Final: +\d+ +[\d.]+ +[\d.]+ +[\d.]+ +[\d.]+ +([\d.]+)`), []string{"--env", "UCX_TLS=rc_v", "--env", "UCX_NET_DEVICES=rxe0:1"}},
	} {
		for device, flags := range map[string][]string{"auto": auto, "shared": shared} {
			measure := func(before string) float64 {
				out, err := e.pair(hostImage, concat(flags, p.flags), before+p.program, again(before+p.program+"$SERVER"))
				m := p.bandwidth.FindStringSubmatch(out)
				if err != nil || m == nil {
					t.Fatalf("%s, %s: %v:\n%s", p.name, device, err, out)
				}
				mbps, err := strconv.ParseFloat(m[1], 64)
				if err != nil {
					t.Fatal(err)
				}
				return mbps
			}
			var ours, exec float64
			for range rounds {
				ours, exec = max(ours, measure("")), max(exec, measure(underExec))
			}
			t.Logf("%s, %s: %.0f MB/s, under exec %.0f MB/s, ratio %.2f", p.name, device, ours, exec, ours/exec)
			if ours < leastRatio*exec {
				t.Errorf("%s, %s: expected %.2f of exec's %.0f MB/s, found %.0f", p.name, device, leastRatio, exec, ours)
			}
		}
	}
}
