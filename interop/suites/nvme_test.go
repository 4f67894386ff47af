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
	softrdma := program(t, l, "cmd/softrdma")
	p := peers.StartHost(t.Context(), t, l, softrdma, "nvme", "serve", "-a", n.device(), "-n", nvmeNQN, "-v",
		"--namespace", file+",320M", "--namespace", "memory,64M,block=4096")
	if err := p.AwaitServing(within(t, nvmeLimit)); err != nil {
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

// nvmeVerify works on 4 queues, 2 for reads and 2 for writes: Linux makes no more of a kind than it has processors.
const nvmeVerify = `
nvme connect -t rdma -a $at -s 4420 -n $nqn -i 2 --nr-write-queues=2
for i in $(seq 50); do
	d1=$(ls /dev/nvme*n1 2>/dev/null | head -n 1)
	[ -n "$d1" ] && break
	sleep .2
done
fio --name=verify --filename=$d1 --direct=1 --ioengine=libaio --rw=randwrite --bsrange=4k-256k --iodepth=16 \
	--numjobs=4 --size=32m --offset_increment=32m --verify=crc32c --verify_fatal=1 --output=/run/fio.said
mkfs.xfs -q -f $d1
mount $d1 /run/mounted
cp /run/nvme.data /run/mounted/file
fio --name=files --directory=/run/mounted --direct=1 --ioengine=libaio --rw=randrw --bs=4k --iodepth=16 --numjobs=4 --size=4m \
	--verify=crc32c --verify_fatal=1 --output=/run/fio.said
umount /run/mounted
echo 3 >/proc/sys/vm/drop_caches
xfs_repair -n $d1 2>/dev/null
mount $d1 /run/mounted
cmp /run/nvme.data /run/mounted/file
umount /run/mounted
nvme disconnect -n $nqn
`

func TestNVMeLinuxAttachesDisksOverRoCE(t *testing.T) { linuxAttachesDisks(t, network{}) }

func TestNVMeLinuxAttachesDisksOverIWARP(t *testing.T) { linuxAttachesDisks(t, network{iwarp: true}) }

// Linux's host attaches softrdma's disks, verifies data and file systems, and connects again after the target was
// killed.
func linuxAttachesDisks(t *testing.T, n network) {
	l := openLab(t)
	g := l.Guests[0]
	file := filepath.Join(t.TempDir(), "disk.img")
	target := nvmeServe(t, l, n, file)
	variables := []string{"at=" + n.host(), "nqn=" + nvmeNQN}
	t.Cleanup(func() {
		if t.Failed() {
			_, _ = g.Run(context.Background(), "nvme", "disconnect", "-n", nvmeNQN)
		}
	})
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
nvme disconnect -n $nqn
`, variables...)
	guestScript(t, g, nvmeVerify, variables...)
	t.Logf("the target said:\n%s", lab.Tail(target.Said(), 1500))
}

// softrdma's host writes to Linux's target and reads from it.
func TestNVMeReadsAndWritesLinuxsTarget(t *testing.T) {
	l := openLab(t)
	g := l.Guests[0]
	softrdma := program(t, l, "cmd/softrdma")
	variables := []string{"at=" + g.IPv4, "nqn=" + nvmeNQN}
	guestScript(t, g, nvmetServe, variables...)
	t.Cleanup(func() { guestScript(t, g, nvmetEnd, variables...) })
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
