//go:build interop && linux

package suites

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"softrdma/interop/lab"
	"softrdma/interop/peers"
)

// blktestLimit bounds a test of blktests. Those with fio take a minute.
const blktestLimit = 5 * time.Minute

// blktestsEnv prepares a guest for blktests: a scratch disk for images, and commands instead of Debian's. "rdma" shows
// and changes only the device of one network. "udevadm settle" waits until Linux has found the disks, as there is no udev.
const blktestsEnv = `
modprobe -a virtio_blk loop nvme-rdma nvmet-rdma
[ -e /dev/fd ] || ln -s /proc/self/fd /dev/fd
mkdir -p /run/blktests/bin
cat >/run/blktests/bin/rdma <<'END'
#!/bin/sh
case "$*" in
*"link add"*"netdev eth0") exec /usr/bin/rdma link add rxe0 type rxe netdev eth0 ;;
*"link add"*) ;;
*"link show"*|link) /usr/bin/rdma link show | grep rxe0 ;;
*) exec /usr/bin/rdma "$@" ;;
esac
END
cat >/run/blktests/bin/udevadm <<'END'
#!/bin/sh
for c in /sys/class/nvme/nvme*; do
	[ "$(cat $c/cntrltype 2>/dev/null)" = io ] || continue
	for i in $(seq 100); do ls $c/nvme*n*/uuid /sys/block/nvme*n*/uuid >/dev/null 2>&1 && break; sleep .1; done
done
true
END
cat >/run/blktests/control <<END
#!/bin/sh
case "\$*" in
*--show-blkdev-type) echo file ;;
*--show-trtype) echo rdma ;;
*--show-hostnqn) echo nqn.2014-08.org.nvmexpress:uuid:$hostid ;;
*--show-hostid) echo $hostid ;;
*--show-traddr) echo $at ;;
*--show-trsvid) echo 4420 ;;
*--show-subsys-uuid) cat /run/blktests/uuid ;;
*--show-subsysnqn) echo $nqn ;;
setup*|cleanup*) echo "\$1 \$3" >/run/blktests/request; read done </run/blktests/answer ;;
*) exit 1 ;;
esac
END
chmod +x /run/blktests/bin/* /run/blktests/control
mkfifo /run/blktests/request /run/blktests/answer
mkdir -p /run/blktests/scratch
mkfs.ext4 -q -F /dev/vda
mount /dev/vda /run/blktests/scratch
`

// blktestsLine matches a result, such as "nvme/008 (tr=rdma bd=device) (create an NVMeOF host) [passed]", and the lines below it,
// which say why a test did not run.
var blktestsLine = regexp.MustCompile(`(?m)^nvme/(\d+) (?:\([^)]*\) )?\((.*)\)\s*\[(passed|failed|not run)\]\n((?:    .*\n)*)`)

// ownTarget matches tests that change Linux's target themselves. They cannot use another one.
var ownTarget = regexp.MustCompile(`NVMET_CFS|_create_nvmet_(ns|subsystem|host)|_get_nvmet_ports|_set_nvmet_(host|ctrl|hash|dh|ns)|passthru_target`)

// A blktest is a test of blktests and its results: "passed", "failed", "not run" or another reason why there is none.
type blktest struct{ Description, Linux, Softrdma, Why string }

// runBlktest runs a test of blktests in a guest. It returns its description, its result, and why it did not run.
func runBlktest(t *testing.T, g *lab.Guest, dir, variables, number string) (description, result, why string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), blktestLimit)
	defer cancel()
	r, err := g.Run(ctx, "sh", "-c", fmt.Sprintf(
		`export PATH=/run/blktests/bin:$PATH; cd %s && %s MODPROBE_PATIENT_RM_TIMEOUT_SECONDS=5 USE_RXE=1 NVMET_TRTYPES=rdma NVMET_BLKDEV_TYPES=device NVME_IMG_SIZE=360M TIMEOUT=10 ./check -o /run/blktests/scratch/results nvme/%s`,
		dir, variables, number))
	t.Logf("%s\n%s", variables, r.Stdout+r.Stderr)
	m := blktestsLine.FindStringSubmatch(r.Stdout)
	if m == nil || m[1] != number {
		t.Errorf("nvme/%s has no result: %v", number, err) // the status tells that a test failed, too
		return "", "no result", ""
	}
	return m[2], m[3], strings.Join(strings.Fields(m[4]), " ")
}

// A controlledTarget is softrdma's target between "setup" and "cleanup" of each test. Its device stays, as Linux's does
// without nvmet.
type controlledTarget struct {
	t        *testing.T
	p        *peers.Program
	requests *os.File
	count    int
}

func newControlledTarget(t *testing.T, l *lab.Lab) *controlledTarget {
	t.Helper()
	dir := t.TempDir()
	fifo := filepath.Join(dir, "requests")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	requests, err := os.OpenFile(fifo, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { requests.Close() })
	n, size := network{}, 360<<20
	command := fmt.Sprintf("exec %s -a %s -size %d %s/disk.img <%s", program(t, l, "interop/peers/nvmepeer"), n.device(), size, dir, fifo)
	return &controlledTarget{t: t, p: peers.StartHost(t.Context(), t, l, "sh", "-c", command), requests: requests}
}

// serve begins to serve a subsystem, or none if the name is empty.
func (c *controlledTarget) serve(ctx context.Context, nqn string) {
	c.count++
	fmt.Fprintln(c.requests, nqn)
	if err := c.p.AwaitOutput(ctx, fmt.Sprintf("ready %d.\n", c.count)); err != nil && ctx.Err() == nil {
		c.t.Error(err)
	}
}

// control tells the guest the disk's identifier, and begins to answer tests. The function that it returns ends that.
func (c *controlledTarget) control(g *lab.Guest, variables []string) (end func()) {
	c.t.Helper()
	c.serve(c.t.Context(), nvmeNQN)
	guestScript(c.t, g, devicesBack+`
nvme connect -t rdma -a $at -s 4420 -n $nqn
for i in $(seq 100); do cat /sys/block/nvme*n1/uuid 2>/dev/null | head -n 1 >/run/blktests/uuid; [ -s /run/blktests/uuid ] && break; sleep .1; done
[ -s /run/blktests/uuid ]
nvme disconnect -n $nqn
`, variables...)
	c.serve(c.t.Context(), "")
	ctx, cancel := context.WithCancel(c.t.Context())
	served := make(chan struct{})
	go func() {
		defer close(served)
		c.answer(ctx, g)
	}()
	return func() {
		cancel()
		<-served
	}
}

// answer does what tests in the guest ask for, until ctx ends.
func (c *controlledTarget) answer(ctx context.Context, g *lab.Guest) {
	for {
		r, err := g.Run(ctx, "cat", "/run/blktests/request")
		if err != nil {
			return
		}
		request, nqn, _ := strings.Cut(strings.TrimSpace(r.Stdout), " ")
		if request != "setup" {
			nqn = ""
		}
		c.serve(ctx, nqn)
		if _, err := g.Run(ctx, "sh", "-c", "echo done >/run/blktests/answer"); err != nil {
			return
		}
	}
}

// readBlktests returns the results of earlier runs, which are not repeated with Linux's target, if BLKTESTS_RESULTS names a file with them, and what saves all.
func readBlktests(t *testing.T) (all map[string]*blktest, save func()) {
	t.Helper()
	all = map[string]*blktest{}
	file := os.Getenv("BLKTESTS_RESULTS")
	if file == "" {
		return all, func() {}
	}
	if text, err := os.ReadFile(file); err == nil {
		if err := json.Unmarshal(text, &all); err != nil {
			t.Fatal(err)
		}
	}
	return all, func() {
		text, err := json.MarshalIndent(all, "", "\t")
		if err == nil {
			err = os.WriteFile(file, text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// blktestNumbers returns the tests that BLKTESTS_RUN names, or all.
func blktestNumbers(t *testing.T, dir string) []string {
	t.Helper()
	numbers := strings.Fields(strings.ReplaceAll(os.Getenv("BLKTESTS_RUN"), "nvme/", ""))
	if len(numbers) > 0 {
		return numbers
	}
	files, err := filepath.Glob(filepath.Join(dir, "tests/nvme/[0-9][0-9][0-9]"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no tests in %s: %v", dir, err)
	}
	for _, f := range files {
		numbers = append(numbers, filepath.Base(f))
	}
	return numbers
}

// The tests of blktests's nvme group that pass with Linux's nvmet-rdma pass with softrdma's target.
func TestNVMeBlktests(t *testing.T) {
	dir := os.Getenv("BLKTESTS")
	if dir == "" {
		t.Skip("SKIPPED: expected BLKTESTS, the folder of a checkout of github.com/linux-blktests/blktests")
	}
	l, n := openLab(t), network{}
	g := l.Guests[0]
	variables := []string{"at=" + n.host(), "nqn=" + nvmeNQN, "hostid=0f01fb42-9f7f-4856-b0b3-51e60b8de349"}
	guestScript(t, g, blktestsEnv, variables...)
	t.Cleanup(func() { guestScript(t, g, devicesBack+"losetup -D; umount /run/blktests/scratch; rm -r /run/blktests") })

	all, save := readBlktests(t)
	numbers := blktestNumbers(t, dir)
	target := newControlledTarget(t, l)
	defer target.control(g, variables)()
	for _, number := range numbers {
		b := all[number]
		if b == nil {
			b = &blktest{}
			b.Description, b.Linux, b.Why = runBlktest(t, g, dir, "", number)
			all[number] = b
		}
		source, err := os.ReadFile(filepath.Join(dir, "tests/nvme", number))
		switch {
		case err != nil:
			t.Fatal(err)
		case b.Linux == "not run":
		case ownTarget.Match(source):
			b.Softrdma = "needs nvmet"
		case b.Linux == "passed":
			guestScript(t, g, devicesBack)
			_, b.Softrdma, b.Why = runBlktest(t, g, dir, "NVME_TARGET_CONTROL=/run/blktests/control", number)
		}
		save()
	}
	t.Logf("the target said:\n%s", lab.Tail(target.p.Said(), 3000))
	reportBlktests(t, all)
}

// reportBlktests prints a table of the results, and fails if a test passes with Linux's target only.
func reportBlktests(t *testing.T, all map[string]*blktest) {
	t.Helper()
	var table strings.Builder
	for _, test := range slices.Sorted(maps.Keys(all)) {
		b := all[test]
		fmt.Fprintf(&table, "| %s | %s | %s | %s | %s |\n", test, b.Description, b.Linux, b.Softrdma, b.Why)
		if b.Linux == "passed" && b.Softrdma != "passed" && b.Softrdma != "needs nvmet" {
			t.Errorf("nvme/%s passes with nvmet-rdma, with softrdma: %q", test, b.Softrdma)
		}
	}
	t.Logf("blktests, nvme group:\n%s", table.String())
}
