//go:build interop && linux

package suites

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"softrdma/interop/lab"
	"softrdma/interop/peers"
)

const (
	iserDisk      = "iqn.2026-01.test:disk"
	iserInitiator = "iqn.2026-01.test:initiator"
	iserLimit     = 10 * time.Minute
)

// iserLab returns the lab, with the programs of iSER.
func iserLab(t *testing.T) *lab.Lab {
	t.Helper()
	if err := lab.InstallISER(t.Context()); err != nil {
		needs(t, err)
	}
	return openLab(t)
}

// tgtd serves a disk by iSER under softrdma exec, to the initiator of the guest. It ignores SIGTERM while it has
// targets.
const tgtd = `tgtd -f -C 0 --iser pool_sz_mb=128 --iscsi portal=$at:3261 &
trap "kill -9 $!" TERM EXIT
truncate -s 64M disk
until tgtadm -C 0 --lld iser --mode target --op new --tid 1 -T ` + iserDisk + `; do sleep .1; done
tgtadm -C 0 --lld iser --mode logicalunit --op new --tid 1 --lun 1 -b $PWD/disk
tgtadm -C 0 --lld iser --mode target --op bind --tid 1 -I ALL
tgtadm -C 0 --lld iser --mode target --op bind --tid 1 -Q ` + iserInitiator + `
echo listening
wait`

// startTgtd starts tgtd with an engine, and returns what ends it: not the test's context, which kills exec alone.
func startTgtd(t *testing.T, l *lab.Lab, n network, engine string) (end func()) {
	t.Helper()
	dir, ctx := t.TempDir(), within(t, iserLimit)
	target := peers.StartHost(ctx, t, l, "sh", "-c", `cd "$1"; echo $$ >pid; export TGT_IPC_SOCKET=$PWD/tgt; shift; exec "$@"`, "sh", dir,
		execCommand(t, l), "exec", "-v", "--engine", engine, "-d", n.device(), "--", "sh", "-c", "at="+n.host()+"\n"+tgtd)
	end = func() {
		text, err := os.ReadFile(filepath.Join(dir, "pid"))
		if err != nil {
			t.Error(err)
		}
		if pid, err := strconv.Atoi(strings.TrimSpace(string(text))); err != nil {
			t.Error(err)
		} else if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
			t.Error(err)
		}
		_ = target.Wait(t, iserLimit) // by the signal
		t.Logf("the target said:\n%s", lab.Tail(target.Said(), 1000))
	}
	if err := target.AwaitServing(ctx); err != nil {
		end()
		t.Fatal(err)
	}
	return end
}

// iserAttach logs in to tgtd, writes, reads and compares, makes a file system, and logs out.
const iserAttach = `
modprobe -a ib_iser sd_mod
mkdir -p /run/lock/iscsi
echo InitiatorName=` + iserInitiator + ` >/etc/iscsi/initiatorname.iscsi
pidof iscsid >/dev/null || iscsid
node="iscsiadm -m node -T ` + iserDisk + ` -p $at:3260 -I iser"
$node -o new
$node --login
for i in $(seq 50); do
	d=$(ls /dev/disk/by-path/*` + iserDisk + `* /dev/sd? 2>/dev/null | head -n 1)
	[ -n "$d" ] && break
	sleep .2
done
iscsiadm -m session -P 1 | grep "Iface Transport: iser"
head -c 16M /dev/urandom >/run/iser.data
dd if=/run/iser.data of=$d bs=1M oflag=direct
echo 3 >/proc/sys/vm/drop_caches
dd if=$d bs=1M count=16 iflag=direct | cmp - /run/iser.data
mkfs.ext4 -q -F $d
mkdir -p /run/mounted
mount $d /run/mounted
cp /run/iser.data /run/mounted/file
umount /run/mounted
mount $d /run/mounted
cmp /run/iser.data /run/mounted/file
umount /run/mounted
$node --logout
`

func TestISERLinuxAttachesTgtdsDiskOverRoCE(t *testing.T) { linuxAttachesTgtd(t, network{}) }

func TestISERLinuxAttachesTgtdsDiskOverIWARP(t *testing.T) {
	linuxAttachesTgtd(t, network{iwarp: true})
}

// Linux's ib_iser attaches the disk of tgtd, which runs under softrdma exec.
func linuxAttachesTgtd(t *testing.T, n network) {
	l := iserLab(t)
	for _, engine := range []string{"program", "daemon"} {
		t.Run(engine, func(t *testing.T) {
			defer startTgtd(t, l, n, engine)()
			guestScript(t, l.Guests[0], iserAttach, "at="+n.host())
		})
	}
}

// isert makes Linux serve a disk of random bytes by iSER, to everyone.
const isert = `
modprobe -a target_core_mod target_core_file iscsi_target_mod ib_isert
mkdir -p /var/target/pr
head -c 16M /dev/urandom >/run/isert.img
target=/sys/kernel/config/target
mkdir -p $target/core/fileio_0/disk
echo fd_dev_name=/run/isert.img,fd_dev_size=16777216,fd_buffered_io=1 >$target/core/fileio_0/disk/control
echo 1 >$target/core/fileio_0/disk/enable
group=$target/iscsi/` + iserDisk + `/tpgt_1
mkdir -p $group/lun/lun_1
ln -s $target/core/fileio_0/disk $group/lun/lun_1/disk
mkdir $group/np/$at:3260
echo 1 >$group/np/$at:3260/iser
echo 0 >$group/attrib/authentication
echo 1 >$group/attrib/generate_node_acls
echo 1 >$group/enable
`

const isertEnd = `
target=/sys/kernel/config/target
group=$target/iscsi/` + iserDisk + `/tpgt_1
echo 0 >$group/enable
rmdir $group/np/*
rm $group/lun/lun_1/disk
rmdir $group/lun/lun_1 $group $target/iscsi/` + iserDisk + ` $target/core/fileio_0/disk
`

// libiscsi's programs under softrdma exec use the disk of Linux's ib_isert.
func TestISERLibiscsiReadsLinuxsTarget(t *testing.T) {
	l := iserLab(t)
	n, g := network{}, l.Guests[0]
	guestScript(t, g, isert, "at="+g.IPv4)
	t.Cleanup(func() { guestScript(t, g, isertEnd) })
	for _, engine := range []string{"program", "daemon"} {
		for _, c := range []struct{ line, words string }{
			{"iscsi-inq", "LIO-ORG"},
			{"iscsi-readcapacity16 -s", "16777216"},
			{"iscsi-perf -t 2 -b 64 -m 4", "finished."},
		} {
			url := "iser://" + g.IPv4 + ":3260/" + iserDisk + "/1"
			p := peers.StartHost(within(t, iserLimit), t, l, execCommand(t, l), "exec", "--engine", engine, "-d", n.device(), "--",
				"sh", "-c", c.line+" -i "+iserInitiator+" "+url+" | grep "+c.words)
			p.Succeeds(t, iserLimit)
		}
	}
}
