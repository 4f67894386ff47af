//go:build interop && linux

package suites

import (
	"fmt"
	"os"
	"path/filepath"
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
	onShare(t, s, func(t *testing.T, _ string) string { return script })
}

func TestFilesOf4GiBByNFS(t *testing.T) { largeFile(t, shareNFS) }
func TestFilesOf4GiBBy9P(t *testing.T)  { largeFile(t, share9P) }

// A guest writes a file of more than 4 GiB, and finds what it has written.
func largeFile(t *testing.T, s share) {
	if os.Getenv("FILES_LARGE") == "" {
		t.Skip("SKIPPED: expected FILES_LARGE=1, to write 4 GiB")
	}
	const size = 4<<30 + 16<<20
	onShare(t, s, func(t *testing.T, dir string) string {
		t.Cleanup(func() {
			if info, err := os.Stat(filepath.Join(dir, "large")); err != nil || info.Size() != size {
				t.Errorf("found %v, %v, expected %d bytes", info, err, size)
			}
		})
		return fmt.Sprintf("fio --name=large --filename=/run/mnt/large --ioengine=psync --fallocate=none --rw=write --bs=1m --size=%d --end_fsync=1 "+
			"--verify=crc32c --verify_fatal=1 --verify_state_save=0 --output=/run/fio.said || { cat /run/fio.said; exit 1; }\ngrep -E 'READ:|WRITE:' /run/fio.said\n", size)
	})
}

// onShare runs a script in a guest that has mounted a directory.
func onShare(t *testing.T, s share, script func(t *testing.T, dir string) string) {
	t.Helper()
	ctx, l := filesStart(t, exerciseLimit)
	n, g, dir := network{}, l.Guests[0], t.TempDir()
	server := filesServe(ctx, t, l, n, s, dir)
	if err := s.mountIn(ctx, g, n); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unmount(g) })
	began := time.Now()
	r, err := g.Run(ctx, "sh", "-c", "set -e\n"+script(t, dir)+"umount /run/mnt")
	if err != nil {
		t.Fatalf("%v\n%s\nthe server said:\n%s", err, r.Stdout+r.Stderr, lab.Tail(server.Said(), 1000))
	}
	t.Logf("in %v\n%s", time.Since(began).Round(time.Second), r.Stdout)
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
