//go:build interop && linux

package userlands

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"softrdma/internal/testenv"
	"softrdma/interop/lab"
)

var enabled = flag.Bool("userlands", false, "run the programs of other releases, which makes a directory of 500 MB for each")

// releases are the releases of Debian, with what sets each apart.
var releases = []struct{ name, why string }{
	{"bullseye", "glibc 2.31, rdma-core 33"},
	{"sid", "the newest of both"},
}

// packages are installed in each user land, beside the essential ones.
const packages = "ibverbs-utils,ibverbs-providers,perftest,rdmacm-utils"

// enter gives the user land in $1 mounts of its own, and runs the script $2 in it.
const enter = `set -e
mount -t proc none "$1/proc"
mount --rbind /sys "$1/sys"
mount --rbind /dev "$1/dev"
mount -t tmpfs none "$1/dev/shm"
mount -t tmpfs none "$1/run"
mount -t tmpfs none "$1/tmp"
ip link set lo up
exec chroot "$1" /bin/sh -c "$2"`

// programs run under softrdma exec in a user land.
var programs = []struct{ name, script, prints string }{
	{"ibv_devinfo", "ibv_devinfo", "PORT_ACTIVE"},
	{"lstat", "find /sys/class/infiniband/ -name rxe0 -type l && test -L /sys/class/infiniband/rxe0 && echo found", "found"},
	{"realpath", "findmnt -n -o TARGET /proc/../proc", "/proc"},
	{"ibv_rc_pingpong", "ibv_rc_pingpong -g 1 & sleep .5; ibv_rc_pingpong -g 1 -c 127.0.0.1 && wait $!", "8192000 bytes in"},
	{"ib_write_bw", "ib_write_bw -n 1000 & sleep .5; ib_write_bw -n 1000 127.0.0.1 && wait $!", "\n 65536      1000 "},
	{"ib_send_lat", "ib_send_lat -n 1000 & sleep .5; ib_send_lat -n 1000 127.0.0.1 && wait $!", "\n 2       1000 "},
	// In rdma-core 65 its client may not end, as with Linux's devices: one thread has seen that there is an
	// event, and reads it without a limit, while another one destroys the id, and with it the event.
	{"rping", "rping -s -C 3 -a 127.0.0.1 & sleep .5; timeout 20 stdbuf -oL rping -c -v -C 3 -a 127.0.0.1; wait $!", "ping data: rdma-ping-2"},
}

func TestProgramsOfOtherReleases(t *testing.T) {
	if !*enabled {
		t.Skip("make userlands runs it")
	}
	if os.Geteuid() != 0 {
		testenv.Lacks(t, "root, which user lands need")
	}
	command, err := filepath.Abs("../../bin/softrdma")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(command); err != nil {
		testenv.Lacks(t, "bin/softrdma: run make preload build")
	}
	for _, r := range releases {
		t.Run(r.name, func(t *testing.T) {
			root := userLand(t, r.name)
			if out, err := exec.Command("cp", command, filepath.Join(root, "usr/bin/softrdma")).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			for _, p := range programs {
				t.Run(p.name, func(t *testing.T) {
					out, err := run(t, 2*time.Minute, "unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "sh", "-c", enter, "sh", root,
						"cd /tmp && softrdma exec -- sh -c '"+p.script+"'")
					if err != nil || !strings.Contains(out, p.prints) {
						t.Errorf("%s (%s): %v, expected %q in its output, found:\n%s", r.name, r.why, err, p.prints, out)
					}
				})
			}
		})
	}
}

// userLand returns the directory of a release, which it makes once and keeps in the user's cache.
func userLand(t *testing.T, release string) string {
	t.Helper()
	root, err := lab.UserLand(t.Context(), release, release, packages)
	if lack := (*lab.LackError)(nil); errors.As(err, &lack) {
		testenv.Lacks(t, lack.What)
	} else if err != nil {
		t.Fatal(err)
	}
	return root
}

// run returns what a program prints.
func run(t *testing.T, limit time.Duration, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	var out bytes.Buffer
	c := exec.CommandContext(ctx, args[0], args[1:]...)
	c.Stdout, c.Stderr = &out, &out
	c.WaitDelay = 10 * time.Second
	err := c.Run()
	return out.String(), err
}
