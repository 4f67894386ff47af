//go:build interop && linux

package suites

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"softrdma/interop/lab"
	"softrdma/interop/peers"
)

const (
	nvmeNQN   = "nqn.2024-01.org.example:lab"
	nvmeLimit = 5 * time.Minute
)

// nvmeServe starts softrdma's target for a file and memory.
func nvmeServe(t *testing.T, l *lab.Lab, n network, file string) *peers.Program {
	t.Helper()
	ctx := within(t, nvmeLimit)
	p := peers.StartHost(ctx, t, l, program(t, l, "cmd/softrdma"), "nvme", "serve", "-a", n.device(), "-n", nvmeNQN, "-v",
		"--namespace", file+",320M", "--namespace", "memory,64M,block=4096")
	if err := p.AwaitServing(ctx); err != nil {
		t.Fatal(err)
	}
	return p
}

// guestScript runs a script in a guest, which must succeed. Each NAME=VALUE is a variable of it.
func guestScript(t *testing.T, g *lab.Guest, script string, variables ...string) string {
	t.Helper()
	// Not the test's own context, which has ended when a cleanup runs.
	ctx, cancel := context.WithTimeout(context.Background(), nvmeLimit)
	defer cancel()
	r, err := g.Run(ctx, "sh", "-c", "set -e; "+strings.Join(variables, "; ")+"\n"+script)
	if err != nil {
		dmesg, _ := g.Run(ctx, "sh", "-c", "dmesg | tail -20")
		t.Fatalf("%v\n%s\nthe guest's kernel:\n%s", err, r.Stdout+r.Stderr, dmesg.Stdout)
	}
	return r.Stdout
}

// Disks of the subsystem in the guest: d1 and d2 are their names.
const nvmeAttach = `
modprobe nvme-rdma
nvme discover -t rdma -a $at -s 4420 | grep -q "subnqn:  $nqn"
nvme connect -t rdma -a $at -s 4420 -n $nqn -i 2 --keep-alive-tmo=4 --reconnect-delay=2 --ctrl-loss-tmo=120
for i in $(seq 50); do
	d1=$(ls /dev/nvme*n1 2>/dev/null | head -n 1) d2=$(ls /dev/nvme*n2 2>/dev/null | head -n 1)
	[ -n "$d1" ] && [ -n "$d2" ] && break
	sleep .2
done
head -c 16M /dev/urandom >/run/nvme.data
dd if=/run/nvme.data of=$d1 bs=1M oflag=direct
dd if=$d1 bs=1M count=16 iflag=direct | cmp - /run/nvme.data
nvme compare $d1 -s 0 -c 7 -z 4096 -d /run/nvme.data
! nvme read $d1 -s 99999999 -c 7 -z 4096 >/dev/null 2>/run/nvme.said
grep -q "LBA Out of Range" /run/nvme.said
nvme reset ${d1%n1}
nvme ana-log ${d1%n1} >/dev/null
nvme effects-log ${d1%n1} >/dev/null
mkfs.ext4 -q -F $d1
mkdir -p /run/mounted
mount $d1 /run/mounted
cp /run/nvme.data /run/mounted/file
umount /run/mounted
blkdiscard $d2
dd if=$d2 bs=1M count=4 iflag=direct | cmp -n 4194304 - /dev/zero
`

func TestNVMeLinuxAttachesDisksOverRoCE(t *testing.T) { linuxAttachesDisks(t, network{}) }

func TestNVMeLinuxAttachesDisksOverIWARP(t *testing.T) { linuxAttachesDisks(t, network{iwarp: true}) }

// Linux's host attaches softrdma's disks, verifies data and a file system, and connects again after the
// target was killed.
func linuxAttachesDisks(t *testing.T, n network) {
	l := openLab(t)
	g := l.Guests[0]
	file := filepath.Join(t.TempDir(), "disk.img")
	target := nvmeServe(t, l, n, file)
	variables := []string{"at=" + n.host(), "nqn=" + nvmeNQN}
	t.Cleanup(func() { guestScript(t, g, "nvme disconnect -n $nqn", variables...) })
	guestScript(t, g, nvmeAttach, variables...)
	target.Kill()
	<-target.Done
	target = nvmeServe(t, l, n, file)
	guestScript(t, g, `
d1=$(ls /dev/nvme*n1 | head -n 1)
mount $d1 /run/mounted
cmp /run/nvme.data /run/mounted/file
cp /run/nvme.data /run/mounted/again
umount /run/mounted
echo 3 >/proc/sys/vm/drop_caches
mount $d1 /run/mounted
cmp /run/nvme.data /run/mounted/again
umount /run/mounted
`, variables...)
	t.Logf("the target said:\n%s", lab.Tail(target.Said(), 1500))
}

// softrdma's host writes to Linux's target and reads from it.
func TestNVMeReadsAndWritesLinuxsTarget(t *testing.T) {
	l := openLab(t)
	g := l.Guests[0]
	softrdma := program(t, l, "cmd/softrdma")
	guestScript(t, g, `
modprobe nvmet-rdma
truncate -s 64M /run/nvmet.img
cd /sys/kernel/config/nvmet
mkdir subsystems/$nqn
echo 1 >subsystems/$nqn/attr_allow_any_host
mkdir subsystems/$nqn/namespaces/1
echo -n /run/nvmet.img >subsystems/$nqn/namespaces/1/device_path
echo 1 >subsystems/$nqn/namespaces/1/buffered_io
echo 1 >subsystems/$nqn/namespaces/1/enable
mkdir ports/1
echo rdma >ports/1/addr_trtype
echo ipv4 >ports/1/addr_adrfam
echo $at >ports/1/addr_traddr
echo 4420 >ports/1/addr_trsvcid
ln -s /sys/kernel/config/nvmet/subsystems/$nqn ports/1/subsystems/$nqn
`, "at="+g.IPv4, "nqn="+nvmeNQN)
	t.Cleanup(func() {
		guestScript(t, g, `cd /sys/kernel/config/nvmet
rm ports/1/subsystems/$nqn; rmdir ports/1 subsystems/$nqn/namespaces/1 subsystems/$nqn`, "nqn="+nvmeNQN)
	})
	run := func(words string, args ...string) string {
		p := peers.StartHost(within(t, nvmeLimit), t, l, append([]string{softrdma, "nvme"}, args...)...)
		p.Succeeds(t, nvmeLimit)
		if !strings.Contains(p.Stdout, words) {
			t.Errorf("softrdma nvme %s printed %q, want %q", args[0], p.Stdout, words)
		}
		return p.Stdout
	}
	device := network{}.device()
	run(nvmeNQN, "discover", "-I", device, g.IPv4)
	run("67108864", "list", "-I", device, "-n", nvmeNQN, g.IPv4)
	data := bytes.Repeat([]byte("softrdma writes to nvmet. "), 400_000)[:8<<20]
	in := filepath.Join(t.TempDir(), "in")
	if err := os.WriteFile(in, data, 0o600); err != nil {
		t.Fatal(err)
	}
	write := fmt.Sprintf("%s nvme write -I %s -n %s --queues 2 %s <%s", softrdma, device, nvmeNQN, g.IPv4, in)
	peers.StartHost(within(t, nvmeLimit), t, l, "sh", "-c", write).Succeeds(t, nvmeLimit)
	if got := run("softrdma writes", "read", "-I", device, "-n", nvmeNQN, "--queues", "2", "--length", "8M", g.IPv4); sha256.Sum256([]byte(got)) != sha256.Sum256(data) {
		t.Errorf("read other data: %d bytes", len(got))
	}
}
