//go:build interop && linux

package suites

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"softrdma/interop/lab"
	"softrdma/interop/peers"
)

const blktestsLimit = 20 * time.Minute

// blktestsEnv prepares a guest for blktests: a scratch disk for images, and a command "rdma" that shows only the
// device of one network and does not remove it. The guest has no udev, for which "udevadm settle" would wait.
const blktestsEnv = `
modprobe -a virtio_blk loop nvme-rdma nvmet-rdma
[ -e /dev/fd ] || ln -s /proc/self/fd /dev/fd
mkdir -p /run/blktests/bin
cat >/run/blktests/bin/rdma <<'END'
#!/bin/sh
case "$*" in
*"link add"*|*"link del"*) ;;
*"link show"*|link) /usr/bin/rdma link show | grep rxe0 ;;
*) exec /usr/bin/rdma "$@" ;;
esac
END
ln -s /bin/true /run/blktests/bin/udevadm
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
setup*|cleanup*) echo "\$1" >/run/blktests/request; read done </run/blktests/answer ;;
*) exit 1 ;;
esac
END
chmod +x /run/blktests/bin/rdma /run/blktests/control
mkfifo /run/blktests/request /run/blktests/answer
mkdir -p /run/blktests/scratch
mkfs.ext4 -q -F /dev/vda
mount /dev/vda /run/blktests/scratch
`

// blktestsLine matches a result, such as "nvme/008 (tr=rdma bd=device) (create an NVMeOF host) [passed]".
var blktestsLine = regexp.MustCompile(`(?m)^nvme/(\d+) (?:\([^)]*\) )?\((.*)\)\s*\[(passed|failed|not run)\]$`)

// ownTarget matches tests that change Linux's target themselves. They cannot use another one.
var ownTarget = regexp.MustCompile(`NVMET_CFS|_create_nvmet|_get_nvmet_ports|_set_nvmet|--port|passthru_target`)

// runBlktests runs tests of blktests in a guest. It returns the results by number, and adds descriptions.
func runBlktests(t *testing.T, g *lab.Guest, dir, variables string, descriptions map[string]string, tests ...string) map[string]string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), blktestsLimit)
	defer cancel()
	r, err := g.Run(ctx, "sh", "-c", fmt.Sprintf(
		`export PATH=/run/blktests/bin:$PATH; cd %s && %s USE_RXE=1 NVMET_TRTYPES=rdma NVMET_BLKDEV_TYPES=device NVME_IMG_SIZE=360M TIMEOUT=10 ./check -o /run/blktests/scratch/results %s`,
		dir, variables, strings.Join(tests, " ")))
	t.Logf("blktests %s:\n%s", variables, r.Stdout+r.Stderr)
	results := map[string]string{}
	for _, m := range blktestsLine.FindAllStringSubmatch(r.Stdout, -1) {
		results[m[1]], descriptions[m[1]] = m[3], m[2]
	}
	// The status tells that a test failed, too.
	if len(results) == 0 {
		t.Fatalf("blktests printed no result: %v", err)
	}
	return results
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
	t.Cleanup(func() { guestScript(t, g, devicesBack+"umount /run/blktests/scratch; rm -r /run/blktests") })

	description := map[string]string{}
	tests := strings.Fields(os.Getenv("BLKTESTS_RUN"))
	if len(tests) == 0 {
		tests = []string{"nvme"}
	}
	linux := runBlktests(t, g, dir, "", description, tests...)
	softrdma := map[string]string{}
	var run []string
	for test, result := range linux {
		source, err := os.ReadFile(filepath.Join(dir, "tests/nvme", test))
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case ownTarget.Match(source):
			softrdma[test] = "needs nvmet"
		case result == "passed":
			run = append(run, "nvme/"+test)
		}
	}
	slices.Sort(run)
	disk := filepath.Join(t.TempDir(), "disk.img")
	serve := func() *peers.Program {
		p := peers.StartHost(t.Context(), t, l, program(t, l, "cmd/softrdma"), "nvme", "serve", "-a", n.device(), "-n", nvmeNQN, "--namespace", disk+",360M")
		if err := p.AwaitServing(t.Context()); err != nil {
			t.Fatal(err)
		}
		return p
	}
	target := serve()
	guestScript(t, g, devicesBack+`
nvme connect -t rdma -a $at -s 4420 -n $nqn
for i in $(seq 100); do cat /sys/block/nvme*n1/uuid 2>/dev/null | head -n 1 >/run/blktests/uuid; [ -s /run/blktests/uuid ] && break; sleep .1; done
[ -s /run/blktests/uuid ]
nvme disconnect -n $nqn
`, variables...)
	end := func() {
		target.Kill()
		<-target.Done
	}
	end()
	// The target runs between "setup" and "cleanup" of each test.
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan struct{})
	running := false
	go func() {
		defer close(served)
		for {
			r, err := g.Run(ctx, "cat", "/run/blktests/request")
			if err != nil {
				return
			}
			switch request := strings.TrimSpace(r.Stdout); {
			case request == "setup" && !running:
				target, running = serve(), true
			case request == "cleanup" && running:
				end()
				running = false
			}
			if _, err := g.Run(ctx, "sh", "-c", "echo done >/run/blktests/answer"); err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-served
	})
	for test, result := range runBlktests(t, g, dir, "NVME_TARGET_CONTROL=/run/blktests/control", description, run...) {
		softrdma[test] = result
	}
	var table strings.Builder
	for _, test := range slices.Sorted(func(yield func(string) bool) {
		for test := range linux {
			if !yield(test) {
				return
			}
		}
	}) {
		if linux[test] == "not run" {
			continue
		}
		fmt.Fprintf(&table, "| %s | %s | %s | %s |\n", test, description[test], linux[test], softrdma[test])
		if linux[test] == "passed" && softrdma[test] != "passed" && softrdma[test] != "needs nvmet" {
			t.Errorf("nvme/%s passes with nvmet-rdma, with softrdma: %q", test, softrdma[test])
		}
	}
	t.Logf("blktests, nvme group:\n%s", table.String())
}
