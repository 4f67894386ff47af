//go:build interop && linux

package suites

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"softrdma/interop/lab"
)

// exerciseLimit bounds a test that writes much.
const exerciseLimit = 25 * time.Minute

// fsx returns the command line of the file system exerciser that FSX names, which works on a file of a guest, or "" if
// there is none.
func fsx(options, file string) string {
	program := os.Getenv("FSX")
	if program == "" {
		return ""
	}
	return fmt.Sprintf("%s -q -N 2000 -l 1000000 -S 7 -P /run %s %s >/run/fsx.said 2>&1 || { tail -50 /run/fsx.said; exit 1; }\nrm -f %s*\n", program, options, file, file)
}

func TestFilesExercisedByNFS(t *testing.T) { exerciseFiles(t, shareNFS, "") }

// Without a cache Linux maps no file of 9P.
func TestFilesExercisedBy9P(t *testing.T) { exerciseFiles(t, share9P, "-R -W") }

// The file system exerciser finds what it has written: whole and parts of blocks, holes, truncations, and maps.
func exerciseFiles(t *testing.T, s share, options string) {
	script := fsx(options, "/run/mnt/exercised")
	if script == "" {
		t.Skip("SKIPPED: expected FSX, the program of fsx")
	}
	ctx, l := filesStart(t, exerciseLimit)
	n, g := network{}, l.Guests[0]
	server := filesServe(ctx, t, l, n, s, t.TempDir())
	if err := s.mountIn(ctx, g, n); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unmount(g) })
	began := time.Now()
	if err := tryInGuest(ctx, g, script+"umount /run/mnt"); err != nil {
		t.Fatalf("%v\nthe server said:\n%s", err, lab.Tail(server.Said(), 1000))
	}
	t.Logf("in %v", time.Since(began).Round(time.Second))
}

func TestFilesOf4GiBByNFS(t *testing.T) { largeFile(t, shareNFS) }
func TestFilesOf4GiBBy9P(t *testing.T)  { largeFile(t, share9P) }

// largeLimit bounds a test with a large file: on an idle machine a guest writes and reads some 35 MB/s.
const largeLimit = 40 * time.Minute

// A guest writes a file of more than 4 GiB. The host finds all of it in the directory, and the guest reads all of it again.
// Each block of 1 MiB has random bytes, their checksum and its offset.
func largeFile(t *testing.T, s share) {
	if os.Getenv("FILES_LARGE") == "" {
		t.Skip("SKIPPED: expected FILES_LARGE=1, to write 4 GiB")
	}
	const size = 4<<30 + 16<<20
	l := ownLab(t, 1, lab.BenchProcessor) // half of the time with TestProcessor would be checksums
	g, n, dir := l.Guests[0], network{}, t.TempDir()
	program(t, l, "cmd/softrdma") // which the limit does not count
	ctx := within(t, largeLimit)
	server := filesServe(ctx, t, l, n, s, dir)
	if err := s.mountIn(ctx, g, n); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unmount(g) })
	fio := func(file string, options ...string) []string {
		return append([]string{"fio", "--name=large", "--filename=" + file, "--ioengine=psync", "--bs=1m", fmt.Sprintf("--size=%d", size),
			"--verify=crc32c", "--verify_fatal=1", "--verify_state_save=0"}, options...)
	}
	guest := func(what string, argv ...string) {
		t.Helper()
		before, began := server.Said(), time.Now()
		r, err := g.Run(ctx, argv...)
		if err != nil {
			t.Fatalf("%v\n%s\nthe server said:\n%s", err, r.Stdout+r.Stderr, lab.Tail(server.Said(), 1000))
		}
		t.Logf("the guest %s it in %v; the server said %q", what, time.Since(began).Round(time.Second), strings.TrimPrefix(server.Said(), before))
	}
	guest("wrote", fio("/run/mnt/large", "--rw=write", "--fallocate=none", "--do_verify=0", "--end_fsync=1")...)
	if info, err := os.Stat(filepath.Join(dir, "large")); err != nil || info.Size() != size {
		t.Fatalf("found %v, %v, expected %d bytes", info, err, size)
	}
	if out, err := l.Host(ctx, fio(filepath.Join(dir, "large"), "--rw=read")...).CombinedOutput(); err != nil {
		t.Fatalf("the host: %v\n%s", err, out)
	}
	inGuest(ctx, t, g, "umount /run/mnt\necho 3 >/proc/sys/vm/drop_caches")
	if err := s.mountIn(ctx, g, n); err != nil {
		t.Fatal(err)
	}
	guest("read", fio("/run/mnt/large", "--rw=read")...)
	inGuest(ctx, t, g, "umount /run/mnt")
}

// nvmeQueues works on 8 queues, 4 for reads and 4 for writes.
const nvmeQueues = `
modprobe nvme-rdma
nvme connect -t rdma -a $at -s 4420 -n $nqn -i 4 --nr-write-queues=4
for i in $(seq 50); do d1=$(ls /dev/nvme*n1 2>/dev/null | head -n 1); [ -n "$d1" ] && break; sleep .2; done
dmesg | grep "mapped 4/4/0 default/read/poll queues"
` + nvmeVerified + `
verified --name=disk --filename=$d1 --rw=randwrite --bsrange=4k-256k --size=24m --offset_increment=24m
`

// nvmeVerified is a function that compares what 8 writers have written.
const nvmeVerified = `
verified() {
	fio "$@" --direct=1 --ioengine=libaio --iodepth=16 --numjobs=8 --group_reporting --verify=crc32c --verify_fatal=1 --verify_state_save=0 --output=/run/fio.said ||
		{ cat /run/fio.said; exit 1; }
	grep -E 'READ:|WRITE:' /run/fio.said
}
`

// nvmeFiles works on a file system $fs of the disk, and checks it afterwards.
const nvmeFiles = nvmeVerified + `
d1=$(ls /dev/nvme*n1 | head -n 1)
wipefs -qa $d1
mkfs.$fs -q $d1
mkdir -p /run/mounted
mount $d1 /run/mounted
verified --name=files --directory=/run/mounted --rw=randrw --bsrange=4k-64k --size=6m
sh /run/exercise
umount /run/mounted
echo 3 >/proc/sys/vm/drop_caches
case $fs in ext4) e2fsck -fn $d1 2>&1 ;; xfs) xfs_repair -n $d1 2>/dev/null ;; esac
`

// Linux's host uses 8 queues at a time, in a guest with as many processors as that takes.
func TestNVMeLinuxUsesEightQueues(t *testing.T) {
	l := ownLab(t, 1, lab.ManyProcessors)
	n, g := network{}, l.Guests[0]
	target := nvmeServe(t, l, n, filepath.Join(t.TempDir(), "disk.img"))
	if err := g.WriteFile(t.Context(), "/run/exercise", []byte("set -e\n"+fsx("", "/run/mounted/exercised"))); err != nil {
		t.Fatal(err)
	}
	variables := []string{"at=" + n.host(), "nqn=" + nvmeNQN}
	t.Log(guestScript(t, g, nvmeQueues, variables...))
	for _, fs := range []string{"ext4", "xfs"} {
		t.Log(guestScript(t, g, nvmeFiles, "fs="+fs))
	}
	guestScript(t, g, "nvme disconnect -n $nqn", variables...)
	t.Logf("the target said:\n%s", lab.Tail(target.Said(), 1500))
}
