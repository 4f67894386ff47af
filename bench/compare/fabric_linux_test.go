package compare

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// command is a script that stands in for softrdma. It logs its arguments and the directory of
// fabrics. As a fabric or server it runs until it is stopped, and as a client it prints a result.
// The first client of a fabric that has a trunk fails.
const command = `#!/bin/sh
echo "$SOFTRDMA_FABRIC_DIR $*" >> "$0.log"
case "$1 $2 $*" in
"fabric up "*--no-sm*) echo "No subnet manager: links stay in state init"; exec sleep 60 ;;
"fabric up "*) echo "Its subnet manager set it up in 1ms"; exec sleep 60 ;;
*--json*)
	if grep -q -e --no-sm "$0.log" && ! test -e "$0.second"; then touch "$0.second"; exit 1; fi
	echo '{"bandwidth": [{"bw_average_gbit_per_s": 8}]}' ;;
*) echo "waiting for a client"; exec sleep 60 ;;
esac
`

func TestFabricIsUpWhilePerfMeasures(t *testing.T) {
	for _, c := range []struct {
		trunk   bool
		fabrics int
		devices [2]string
		clients int
	}{
		{false, 1, [2]string{"ib:bench/node-0", "ib:bench/node-1"}, 1},
		{true, 2, [2]string{"ib:bench/node-0", "ib:far/p1-node-0"}, 2},
	} {
		path := filepath.Join(t.TempDir(), "softrdma")
		if err := os.WriteFile(path, []byte(command), 0o700); err != nil {
			t.Fatal(err)
		}
		w := Work{Tool: FabricName, Kind: Stream, Op: "write", Bytes: 64 << 10}
		r, err := Fabric{Path: path, Trunk: c.trunk}.Run(t.Context(), Loopback(), w, 10*time.Millisecond)
		if err != nil || r.Throughput != 1e9 {
			t.Fatalf("%v, %v", r.Throughput, err)
		}
		b, err := os.ReadFile(path + ".log")
		if err != nil {
			t.Fatal(err)
		}
		directory, _, _ := strings.Cut(string(b), " ")
		fabrics, clients := 0, 0
		for line := range strings.Lines(string(b)) {
			dir, args, _ := strings.Cut(strings.TrimSpace(line), " ")
			if dir != directory {
				t.Errorf("%s: fabrics in %q, expected %q", args, dir, directory)
			}
			want := "-d " + c.devices[server]
			switch {
			case strings.HasPrefix(args, "fabric up"):
				fabrics++
				continue
			case strings.Contains(args, "--json"):
				clients++
				want = "-d " + c.devices[client]
			}
			if !strings.Contains(args, want+" ") {
				t.Errorf("%s: expected %s", args, want)
			}
		}
		if fabrics != c.fabrics || clients != c.clients {
			t.Errorf("%d fabrics and %d clients, expected %d and %d:\n%s", fabrics, clients, c.fabrics, c.clients, b)
		}
		if _, err := os.Stat(directory); !os.IsNotExist(err) {
			t.Errorf("the directory of the fabrics is left: %v", err)
		}
	}
}
