//go:build interop && linux

package suites

import (
	"context"
	_ "embed"
	"testing"
	"time"

	"softrdma/interop/lab"
	"softrdma/interop/peers"
)

const switchLimit = 5 * time.Minute

// switched connects the guests' RoCE adapters by a switch of softrdma, in place of Linux's bridge, until the test ends.
func switched(ctx context.Context, t *testing.T, l *lab.Lab) {
	t.Helper()
	argv := []string{program(t, l, "interop/peers/etherswitch")}
	for _, g := range l.Guests {
		name, err := g.Detach(ctx)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := g.Attach(context.Background()); err != nil {
				t.Error(err)
			}
		})
		argv = append(argv, name)
		inGuest(ctx, t, g, "ip link set eth0 gso_max_segs 1")
	}
	p := peers.StartHost(ctx, t, l, argv...)
	if err := p.AwaitServing(ctx); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Kill()
		<-p.Done
		t.Logf("the switch said:\n%s", peers.LastLine(p.Said()))
	})
}

//go:embed testdata/rds.py
var rdsProgram []byte

//go:embed testdata/smc.py
var smcProgram []byte

// exchange runs a program of both guests, of which the first serves.
func exchange(ctx context.Context, t *testing.T, l *lab.Lab, source []byte) (said string) {
	t.Helper()
	for _, g := range l.Guests {
		if err := g.WriteFile(ctx, "/run/program.py", source); err != nil {
			t.Fatal(err)
		}
	}
	a, b := l.Guests[0], l.Guests[1]
	server, err := a.Start(ctx, "python3", "/run/program.py", a.IPv4, b.IPv4, "serve")
	if err != nil {
		t.Fatal(err)
	}
	if err := server.WaitOutput(ctx, "listening"); err != nil {
		t.Fatal(err)
	}
	client, err := b.Run(ctx, "python3", "/run/program.py", b.IPv4, a.IPv4)
	if err != nil {
		server.Kill()
		served, _ := server.Wait(ctx)
		t.Fatalf("%v\nthe server said:\n%s%s", err, served.Stdout, served.Stderr)
	}
	if _, err := server.Wait(ctx); err != nil {
		t.Error(err)
	}
	return client.Stdout
}

// Linux's rds_rdma in two guests, through softrdma's switch.
func TestSwitchRDSBetweenGuests(t *testing.T) {
	l := openLab(t)
	ctx := within(t, switchLimit)
	switched(ctx, t, l)
	for _, g := range l.Guests {
		inGuest(ctx, t, g, "modprobe rds_rdma")
	}
	t.Log(exchange(ctx, t, l, rdsProgram))
}

// Linux's smc in two guests, through softrdma's switch. The program says whether the sockets use RDMA.
func TestSwitchSMCBetweenGuests(t *testing.T) {
	l := openLab(t)
	ctx := within(t, switchLimit)
	switched(ctx, t, l)
	for _, g := range l.Guests {
		inGuest(ctx, t, g, "modprobe -a smc smc_diag")
	}
	t.Log(exchange(ctx, t, l, smcProgram))
}

// nfsd serves /run/nfs by NFS version 4 over RDMA, without programs of nfs-utils: what these answer is written into the
// kernel's caches (the client's domain, the export with fsid=0, and the file handle of its root). rpcbind is a program that
// says yes to everything.
const nfsd = `
cat >/run/rpcbind.py <<'PY'
import os, socket, struct
s = socket.socket(socket.AF_UNIX)
s.bind("/run/rpcbind.sock")
s.listen(8)
while True:
    c, _ = s.accept()
    if os.fork() == 0:
        while head := c.recv(4, socket.MSG_WAITALL):
            call = c.recv(struct.unpack("!I", head)[0] & 0x7fffffff, socket.MSG_WAITALL)
            c.sendall(struct.pack("!I", 1 << 31 | 28) + call[:4] + struct.pack("!6I", 1, 0, 0, 0, 0, 1))
        os._exit(0)
PY
python3 /run/rpcbind.py >/dev/null 2>&1 &
while [ ! -S /run/rpcbind.sock ]; do sleep .1; done
modprobe -a nfsd rpcrdma
mkdir -p /run/nfs
[ -e /proc/fs/nfsd/threads ] || mount -t nfsd nfsd /proc/fs/nfsd
never=4294967295
echo "nfsd $client $never lab" >/proc/net/rpc/auth.unix.ip/channel
echo "lab /run/nfs $never 9234 65534 65534 0" >/proc/net/rpc/nfsd.export/channel
printf 'lab 1 \\x00000000 %s /run/nfs\n' $never >/proc/net/rpc/nfsd.fh/channel
echo 1 >/proc/fs/nfsd/nfsv4gracetime || true
python3 -c 'import os; os.write(os.open("/proc/fs/nfsd/portlist", os.O_WRONLY), b"rdma 20049\n")'
echo 4 >/proc/fs/nfsd/threads
`

// nfsMount mounts it: Debian's busybox mounts version 3 only.
const nfsMount = `
modprobe -a nfsv4 rpcrdma
mkdir -p /run/mnt
python3 - <<'PY'
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
own, server = os.environ["own"], os.environ["server"]
options = "vers=4.2,proto=rdma,port=20049,addr=%s,clientaddr=%s,sec=sys" % (server, own)
if libc.mount((server + ":/").encode(), b"/run/mnt", b"nfs4", 0, options.encode()) != 0:
    sys.exit("mount: " + os.strerror(ctypes.get_errno()))
PY
`

// Linux's NFS over RDMA between two guests, through softrdma's switch.
func TestSwitchNFSBetweenGuests(t *testing.T) {
	l := openLab(t)
	ctx := within(t, switchLimit)
	switched(ctx, t, l)
	a, b := l.Guests[0], l.Guests[1]
	inGuest(ctx, t, a, "client="+b.IPv4+nfsd)
	t.Cleanup(func() {
		unmount(b)
		_, _ = a.Run(context.Background(), "sh", "-c", "echo 0 >/proc/fs/nfsd/threads")
	})
	inGuest(ctx, t, b, "export own="+b.IPv4+" server="+a.IPv4+nfsMount+"grep /run/mnt /proc/mounts | grep proto=rdma\n"+filesWork+"cd /\numount /run/mnt")
}
