//go:build interop && linux

package suites

import (
	"path/filepath"
	"testing"

	"softrdma/interop/lab"
)

// reserveTools are functions of the scripts below.
const reserveTools = `
find() { # sets d
	for i in $(seq 50); do d=$(ls /dev/nvme*n1 2>/dev/null | head -n 1); [ -n "$d" ] && return; sleep .2; done
	return 1
}
attach() { nvme connect -t rdma -a $at -s 4420 -n $nqn --hostnqn=$host --hostid=$hostid; find; }
fails() { # fails WORDS COMMAND…: the command must fail and say the words
	words=$1; shift
	if "$@" >/run/said 2>&1; then echo "it succeeded: $*"; exit 1; fi
	grep -q "$words" /run/said || { echo "$*:"; cat /run/said; exit 1; }
}
conflicts() { fails "Reservation Conflict" "$@"; }
writes() { dd if=/run/reserve.data of=$d bs=4k count=1 oflag=direct 2>&1; }
reads() { dd if=$d of=/run/reserve.read bs=4k count=1 iflag=direct 2>&1; }
reports() { # reports TYPE KEYS-IN-DECIMAL…
	nvme resv-report $d -e -o json >/run/said
	python3 - "$@" <<'PY'
import json, sys
r = json.load(open("/run/said"))
hosts = r.get("regctlext", r.get("regctl_ext", []))
found = [str(r["rtype"])] + ["%d%s" % (h["rkey"], "*" if h["rcsts"] & 1 else "") for h in hosts]
if found != sys.argv[1:]:
    sys.exit("expected %s, found %s" % (sys.argv[1:], r))
PY
}
head -c 4096 /dev/urandom >/run/reserve.data
`

// The reservations of Linux's ioctls: pr COMMAND NUMBERS… by their names in linux/pr.h.
const reservePR = `
pr() {
	python3 - $d "$@" <<'PY'
import errno, fcntl, struct, sys
layouts = {"register": (200, "QQII"), "reserve": (201, "QII"), "release": (202, "QII"), "preempt": (203, "QQII"), "clear": (205, "QII")}
number, layout = layouts[sys.argv[2]]
size = struct.calcsize("=" + layout)
with open(sys.argv[1], "rb") as d:
    try: # Linux 6.1 returns the status of a command that is refused
        status = fcntl.ioctl(d, 1 << 30 | size << 16 | ord("p") << 8 | number, bytearray(struct.pack("=" + layout, *map(int, sys.argv[3:]))))
    except OSError as e:
        sys.exit(errno.errorcode[e.errno])
    if status != 0:
        sys.exit("status %#x" % status)
PY
}
`

// Linux's hosts in two guests share a disk by reservations.
func TestNVMeLinuxReservesADisk(t *testing.T) {
	l, n := openLab(t), network{}
	target := nvmeServe(t, l, n, filepath.Join(t.TempDir(), "disk.img"))
	t.Cleanup(func() {
		for _, g := range l.Guests {
			_, _ = g.Run(t.Context(), "nvme", "disconnect", "-n", nvmeNQN)
		}
	})
	run := func(g *lab.Guest, script string) {
		t.Helper()
		id := map[string]string{"a": "0f01fb42-9f7f-4856-b0b3-51e60b8de349", "b": "1f01fb42-9f7f-4856-b0b3-51e60b8de349"}[g.Name]
		guestScript(t, g, reserveTools+reservePR+"d=$(ls /dev/nvme*n1 2>/dev/null | head -n 1)\n"+script, "at="+n.host(), "nqn="+nvmeNQN, "hostid="+id, "host=nqn.2014-08.org.nvmexpress:uuid:"+id)
	}
	a, b := l.Guests[0], l.Guests[1]
	for _, g := range []*lab.Guest{a, b} {
		run(g, "modprobe nvme-rdma\nattach\nreports 0\nnvme id-ns $d | grep -q 'rescap *: 0x7e'\n")
	}

	// By nvme-cli: write exclusive, and its holder preempted.
	run(a, "conflicts nvme resv-acquire $d -c 0x11 -t 1 -a 0\nnvme resv-register $d -k 0x11 -r 0\nnvme resv-acquire $d -c 0x11 -t 1 -a 0\nwrites\nreports 1 '17*'\n")
	run(b, "reads\nfails 'Invalid exchange' writes\nconflicts nvme resv-acquire $d -c 0x22 -t 1 -a 0\nnvme resv-register $d -k 0x22 -r 0\nreports 1 '17*' 34\n"+
		"fails 'Invalid exchange' writes\nconflicts nvme resv-acquire $d -c 0x22 -t 1 -a 0\nconflicts nvme resv-release $d -c 0x23 -t 1 -a 0\n")
	// Reservations belong to hosts, and not to their connections.
	run(a, "nvme disconnect -n $nqn\n")
	run(b, "fails 'Invalid exchange' writes\nreports 1 '17*' 34\n")
	run(a, "attach\nwrites\n")
	run(b, "nvme resv-acquire $d -c 0x22 -p 0x11 -t 2 -a 1\nwrites\nreads\nreports 2 '34*'\n")
	// The type is right, and its name of nvme-cli 2.3 another's ("Empty Log Page").
	run(a, "fails 'Invalid exchange' writes\nfails 'Invalid exchange' reads\nnvme resv-notif-log ${d%n1} >/run/said\ngrep 'Page Type.*: 1 ' /run/said\n")
	run(b, "nvme resv-release $d -c 0x22 -t 2 -a 0\nreports 0 34\nnvme resv-register $d -c 0x22 -r 1\nreports 0\n")
	run(a, "writes\nreads\n")

	// By the ioctls that clusters and pNFS use: for registrants only.
	run(a, "pr register 0 17 0 0\npr reserve 17 4 0\nreports 4 '17*'\nwrites\n")
	run(b, "fails 'Invalid exchange' reads\npr register 0 34 0 0\nreads\nwrites\nfails . pr reserve 34 4 0\npr preempt 34 17 3 0\nreports 3 '34*'\n")
	run(a, "reads\nfails 'Invalid exchange' writes\nfails . pr reserve 17 3 0\npr register 0 17 0 0\nwrites\npr clear 17 0 0\nreports 0\nnvme disconnect -n $nqn\n")
	run(b, "writes\nnvme disconnect -n $nqn\n")
	t.Logf("the target said:\n%s", lab.Tail(target.Said(), 1500))
}
