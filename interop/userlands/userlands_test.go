//go:build interop && linux

package userlands

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
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
	{"bullseye", "glibc 2.31, rdma-core 33, UCX 1.10, Open MPI 4.1, libfabric 1.11"},
	{"bookworm", "glibc 2.36, rdma-core 44, UCX 1.13, Open MPI 4.1, libfabric 1.17"},
	{"trixie", "glibc 2.41, rdma-core 56, UCX 1.18, Open MPI 5.0, libfabric 2.1"},
	{"sid", "the newest of all"},
}

// packages are installed in each user land, beside the essential ones, first those that debootstrap can install.
const (
	packages = "ibverbs-utils,ibverbs-providers,perftest,rdmacm-utils"
	more     = "rdma-core python3-pyverbs ucx-utils openmpi-bin python3-mpi4py libfabric-bin iproute2"
)

// enter gives a copy of the user land in $1 mounts of its own, and runs the script $2 in it. What is written to the copy is gone at
// the end.
const enter = `set -e
mount -t tmpfs none /mnt
mkdir /mnt/upper /mnt/work /mnt/root
mount -t overlay -o lowerdir="$1",upperdir=/mnt/upper,workdir=/mnt/work none /mnt/root
cd /mnt/root
mount -t proc none proc
mount --rbind /sys sys
mount --rbind /dev dev
mount -t tmpfs none dev/shm
mount -t tmpfs none run
mount -t tmpfs none tmp
mount --bind "$FILES" mnt
rm -f usr/bin/softrdma
test -e etc/hosts || echo 127.0.0.1 localhost > etc/hosts
eval "$BEFORE"
exec chroot . /bin/sh -c "cd /tmp; $2"`

// network gives eth0 the address that programs use.
const network = `ip link set lo up
ip link add eth0 type veth peer name eth1
ip address add 192.0.2.1/24 dev eth0
ip link set eth0 addrgenmode none up
ip link set eth1 addrgenmode none up
`

// both returns a script that starts a server, and when it listens a client.
func both(server, client string) string {
	return server + " & sleep 2; " + client + " && wait $!"
}

// A program runs under softrdma exec in a user land.
type program struct {
	name, script, prints string
	fails                map[string]string // why it may fail in a release
}

// noUCX are the releases whose UCX has no device of rxe's provider.
var noUCX = map[string]string{
	"bullseye": "UCX 1.10 calls ibv_create_cq only if ibv_create_cq_ex fails with ENOSYS, and rdma-core 33 says EOPNOTSUPP",
	"sid":      "Debian's UCX 1.23 is built without verbs (libuct_ib)",
}

var programs = []program{
	{name: "ibv_devinfo", script: "ibv_devinfo", prints: "PORT_ACTIVE"},
	{name: "lstat", script: "find /sys/class/infiniband/ -name rxe0 -type l && test -L /sys/class/infiniband/rxe0 && echo found", prints: "found"},
	{name: "realpath", script: "findmnt -n -o TARGET /proc/../proc", prints: "/proc"},
	{name: "ibv_rc_pingpong", script: both("ibv_rc_pingpong -g 1", "ibv_rc_pingpong -g 1 -c 192.0.2.1"), prints: "8192000 bytes in"},
	{name: "ibv_uc_pingpong", script: both("ibv_uc_pingpong -g 1", "ibv_uc_pingpong -g 1 -c 192.0.2.1"), prints: "8192000 bytes in"},
	{name: "ibv_ud_pingpong", script: both("ibv_ud_pingpong -g 1", "ibv_ud_pingpong -g 1 -c 192.0.2.1"), prints: "2048000 bytes in"},
	{name: "ibv_srq_pingpong", script: both("ibv_srq_pingpong -g 1", "ibv_srq_pingpong -g 1 -c 192.0.2.1"), prints: "8192000 bytes in"},
	{name: "ib_write_bw", script: both("ib_write_bw -n 1000", "ib_write_bw -n 1000 192.0.2.1"), prints: "\n 65536      1000 "},
	{name: "ib_send_lat", script: both("ib_send_lat -n 1000", "ib_send_lat -n 1000 192.0.2.1"), prints: "\n 2       1000 "},
	{name: "ib_send_lat -c UD", script: both("ib_send_lat -c UD -n 1000", "ib_send_lat -c UD -n 1000 192.0.2.1"), prints: "\n 2       1000 "},
	{name: "ib_read_bw -R", script: both("ib_read_bw -R -n 1000", "sleep 3; ib_read_bw -R -n 1000 192.0.2.1"), prints: "\n 65536      1000 "},
	// In rdma-core 65 its client may not end, as with Linux's devices: one thread has seen that there is an
	// event, and reads it without a limit, while another one destroys the id, and with it the event.
	{name: "rping", script: "rping -s -C 3 -a 192.0.2.1 & sleep 1; timeout 20 stdbuf -oL rping -c -v -C 3 -a 192.0.2.1; wait $!", prints: "ping data: rdma-ping-2"},
	{name: "ucmatose", script: both("ucmatose", "ucmatose -s 192.0.2.1"), prints: "test complete"},
	{name: "udaddy", script: both("udaddy", "udaddy -s 192.0.2.1"), prints: "return status 0"},
	{name: "UCX tag_bw", script: ucx("tag_bw -s 65536"), prints: "Final:", fails: noUCX},
	{name: "UCX tag_lat", script: ucx("tag_lat"), prints: "Final:", fails: noUCX},
	{name: "UCX put_bw", script: ucx("ucp_put_bw -s 65536"), prints: "Final:", fails: noUCX},
	{name: "UCX get", script: ucx("ucp_get -s 65536"), prints: "Final:", fails: noUCX},
	{name: "UCX add", script: ucx("ucp_add -s 8"), prints: "Final:", fails: noUCX},
	{name: "UCX stream_bw", script: ucx("stream_bw -s 65536"), prints: "Final:", fails: noUCX},
	{name: "Open MPI, 2 ranks", script: allReduce(2), prints: "sum 1\n", fails: noUCX},
	{name: "Open MPI, 4 ranks", script: allReduce(4), prints: "sum 6\n", fails: noUCX},
	{name: "fi_pingpong -e msg", script: pingpong("-p verbs -e msg"), prints: "usec/xfer"},
	{name: "fi_pingpong -e dgram", script: pingpong("-p verbs -e dgram"), prints: "usec/xfer"},
	{name: "fi_pingpong -e rdm, ofi_rxm", script: pingpong(`-p "verbs;ofi_rxm" -e rdm`), prints: "usec/xfer"},
	{name: "fi_pingpong -e rdm, ofi_rxd", script: pingpong(`-p "verbs;ofi_rxd" -e rdm`), prints: "usec/xfer"},
	{name: "rdma-core's tests", script: rdmaCore, prints: "none failed"},
}

func ucx(test string) string {
	line := "UCX_TLS=rc_v,ud_v ucx_perftest $mpi -n 1000 -t " + test
	// With MPI built in, it uses that where there is no terminal.
	return `ucx_perftest -h | grep -q "MPI mode" && mpi="-P 0"; ` + both(line, line+" 192.0.2.1")
}

// pingpong runs libfabric's. Debian has no other programs of fabtests.
func pingpong(args string) string {
	line := "fi_pingpong -I 20 " + args
	// libfabric before 1.12 replaces the mmap of each library by libc's, to see what memory ends.
	return `fi_info --version | grep -q "libfabric: 1.11" && export FI_MR_CACHE_MONITOR=disabled; ` + both(line, line+" 192.0.2.1")
}

func allReduce(ranks int) string {
	return fmt.Sprintf("mpirun --allow-run-as-root --oversubscribe -np %d --mca pml ucx -x UCX_TLS=rc_v,ud_v,self "+
		`python3 -c "from mpi4py import MPI; c = MPI.COMM_WORLD; s = c.allreduce(c.rank); c.rank or print(\"sum\", s)"`, ranks)
}

// rdmaCore runs rdma-core's own tests, a module at a time: in one process the newer ones crash, on Linux's Soft RoCE
// as well. In rdma-core 33 two members of a multicast group take their own datagram for the other's answer.
const rdmaCore = `cp -r /usr/share/doc/rdma-core/tests . && gunzip -f tests/*.gz
grep -q client_multicast_traffic tests/rdmacm_utils.py || sed -i "s/def test_rdmacm_async_\(.*\)multicast/def two_way_\1multicast/" tests/test_rdmacm.py
for m in $(cd tests && ls test_*.py | grep -v "mlx5\|efa\|cuda" | sed "s/.py$//"); do
	timeout 100 python3 tests/run_tests.py --dev rxe0 -v -k "tests.$m.*" > $m.log 2>&1 || { echo "$m: $?"; tail -1 $m.log; }
	grep "^FAIL:\|^ERROR:" $m.log
done
echo "$(cat test_*.log | grep -c "\.\.\. ok$") pass, $(cat test_*.log | grep -c "\.\.\. skipped") are skipped"
grep -q "^FAIL:\|^ERROR:" test_*.log || echo none failed`

func TestProgramsOfOtherReleases(t *testing.T) {
	command := needed(t, "../../bin/softrdma", "run make preload build")
	for _, r := range releases {
		t.Run(r.name, func(t *testing.T) {
			root := userLand(t, r.name)
			rxe := newGuest(t)
			for _, p := range programs {
				t.Run(p.name, func(t *testing.T) {
					var out string
					var ended error
					err := lab.Retry(t, 3, refused, func(int) error {
						out, ended = in(t, root, filepath.Dir(command), "", `/mnt/softrdma exec -- sh -c "$SCRIPT"`, p.script)
						if ended == nil && strings.Contains(out, p.prints) {
							return nil
						}
						return fmt.Errorf("%s (%s): %v, expected %q in its output, found:\n%s", r.name, r.why, ended, p.prints, out)
					})
					rxe.judge(t, root, p, out, ended)
					if why := p.fails[r.name]; err != nil && why != "" {
						t.Skipf("as expected: %s", why)
					} else if err != nil {
						t.Error(err)
					}
					if p.script == rdmaCore {
						t.Log(out[max(0, len(out)-200):])
					}
				})
			}
			t.Run("softrdma env", func(t *testing.T) {
				out, err := in(t, root, filepath.Dir(command), "", `eval "$(/mnt/softrdma env)"; sh -c "$SCRIPT"`, programs[3].script)
				if err != nil || !strings.Contains(out, programs[3].prints) {
					t.Errorf("%s (%s): %v\n%s", r.name, r.why, err, out)
				}
			})
		})
	}
}

// refused reports whether perftest's -R failed because its server told the client to connect before it listened
// again, which it does (4.5) where the processors are busy. Its client then crashes.
func refused(err error) bool {
	return strings.Contains(err.Error(), "RDMA_CM_EVENT_REJECTED; error: 8")
}

// needed returns the path of what a make target makes.
func needed(t *testing.T, name, target string) string {
	t.Helper()
	if !*enabled {
		t.Skip("make userlands runs it")
	}
	if os.Geteuid() != 0 {
		testenv.Lacks(t, "root, which user lands need")
	}
	found, err := filepath.Glob(name)
	if err != nil || len(found) != 1 {
		testenv.Lacks(t, fmt.Sprintf("%s: %s (%v)", name, target, err))
	}
	name, err = filepath.Abs(found[0])
	if err != nil {
		t.Fatal(err)
	}
	return name
}

// in runs a line of a shell in a copy of a user land, which has files at /mnt, and before it a line outside of it, at
// the copy's root.
func in(t *testing.T, root, files, before, line, script string) (string, error) {
	t.Helper()
	return run(t, 10*time.Minute, entering(root, files, network+before, line, script, "--net")...)
}

// entering returns the arguments of a program that does what in says, without a network of its own unless a flag of
// unshare asks for one.
func entering(root, files, before, line, script string, flags ...string) []string {
	args := []string{"env", "FILES=" + files, "BEFORE=" + before, "SCRIPT=" + script, "XDG_CACHE_HOME=/tmp/cache", "unshare", "--mount", "--pid", "--fork", "--kill-child"}
	return append(append(args, flags...), "sh", "-c", enter, "sh", root, line)
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
	install(t, root)
	return root
}

// install installs the packages that debootstrap cannot. The signature of a mirror's list may be old.
func install(t *testing.T, root string) {
	t.Helper()
	if _, err := run(t, time.Minute, "chroot", root, "sh", "-c", "dpkg-query -W -f '${db:Status-Status}\\n' "+more+" 2>&1 | grep -qvx installed"); err != nil {
		return
	}
	out, err := run(t, 20*time.Minute, "unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", `set -e
mount -t proc none "$1/proc"; mount --rbind /dev "$1/dev"; mount -t tmpfs none "$1/run"; mount -t tmpfs none "$1/tmp"
printf '#!/bin/sh\nexit 101\n' > "$1/usr/sbin/policy-rc.d"; chmod 755 "$1/usr/sbin/policy-rc.d"
export DEBIAN_FRONTEND=noninteractive LC_ALL=C
chroot "$1" apt-get -q -o Acquire::Check-Valid-Until=false update
exec chroot "$1" apt-get -q -y install --no-install-recommends `+"$2", "sh", root, more)
	if err != nil {
		t.Fatalf("%v: %s", err, out[max(0, len(out)-2000):])
	}
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
