//go:build interop && linux

package containers

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// looks is a program that makes RDMA's first call as libibverbs does, and says what it has found.
const looks = `#include <dirent.h>
#include <stdio.h>
int main(void) { return puts(opendir("/sys/class/infiniband") ? "found" : "nothing") < 0; }
`

// TestProgramsWithoutADeviceSayWhy runs what cannot have a device. A program that is linked to musl or
// statically runs as without softrdma.
func TestProgramsWithoutADeviceSayWhy(t *testing.T) {
	if !insideWith(t) {
		return
	}
	e := newEngine(t)
	dir := t.TempDir()
	source := filepath.Join(dir, "looks.c")
	if err := os.WriteFile(source, []byte(looks), 0o600); err != nil {
		t.Fatal(err)
	}
	e.must("gcc", "-static", "-o", filepath.Join(dir, "static"), source)
	e.must("musl-gcc", "-o", filepath.Join(dir, "musl"), source)
	e.must("gcc", "-o", filepath.Join(dir, "dynamic"), source)
	programs := []string{"--volume", dir + ":/programs:ro"}
	nowhere := []string{"--read-only", "--read-only-tmpfs=false", "--user", "65534:65534"}
	for _, c := range []struct {
		name, script string
		flags        []string
		prints       string
	}{
		{"dynamic", "/programs/dynamic", nil, "found\n"},
		{"static", "/programs/static", nil, "nothing\n"},
		{"musl", "/programs/musl 2>&1", nil, "softrdma: no RDMA device: expected a program that uses glibc"},
		{"no provider", "ibv_devinfo 2>&1; true", []string{"--volume", t.TempDir() + ":/usr/lib/x86_64-linux-gnu/libibverbs:ro"}, "PROVIDERS_MISSING"},
		{"no libibverbs", "rm /usr/lib/x86_64-linux-gnu/libibverbs.so.1 && ibv_devinfo 2>&1; ls /sys/class/infiniband", nil, "libibverbs.so.1: cannot open shared object file: No such file or directory\nrxe0\n"},
		{"no place", "/programs/dynamic", concat(nowhere, []string{"--volume", dir + ":/dev/shm:ro"}), "softrdma: no RDMA device: "},
	} {
		out, err := e.run(hostImage, concat(auto, programs, c.flags), c.script)
		if err != nil || !strings.Contains(out, c.prints) || strings.Count(out, "softrdma:") > 1 {
			t.Errorf("%s: %v, expected %q in one line, found: %s", c.name, err, c.prints, out)
		}
	}
}

// startLimit is how much longer a program without RDMA may take to start in a container with a device.
const startLimit = 2 * time.Millisecond

// starts prints the microseconds that 101 starts of a program take, each in a line.
const starts = `i=0; while [ $i -lt 101 ]; do a=${EPOCHREALTIME/./}; /bin/true; b=${EPOCHREALTIME/./}; echo $((b-a)); i=$((i+1)); done | sort -n | sed -n 51p`

func TestStartOfAProgramWithoutRDMA(t *testing.T) {
	if !inside(t) {
		return
	}
	e := newEngine(t)
	median := func(flags []string) (least time.Duration) {
		for range 3 { // others use the processors
			out, err := e.run(hostImage, flags, "bash -c '"+starts+"'")
			d, e := time.ParseDuration(strings.TrimSpace(out) + "us")
			if err != nil || e != nil {
				t.Fatalf("%v, %v: %s", err, e, out)
			}
			if least == 0 || d < least {
				least = d
			}
		}
		return least
	}
	without, with := median(nil), median(auto)
	t.Logf("/bin/true: %v without a device, %v with one", without, with)
	if with-without > startLimit {
		t.Errorf("/bin/true: expected at most %v more than %v, found %v", startLimit, without, with)
	}
}
