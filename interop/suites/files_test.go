//go:build interop && linux

package suites

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"softrdma/interop/lab"
	"softrdma/interop/peers"
)

// filesLimit bounds a test. Linux's NFS client takes 20 to 60 s to notice that a server was killed and to connect again.
const filesLimit = 5 * time.Minute

// filesServe starts a command of softrdma that serves a directory. It ends in a cleanup, after those of mounts: a client
// waits long for a server that has vanished.
func filesServe(ctx context.Context, t *testing.T, l *lab.Lab, n network, s share, dir string) *peers.Program {
	t.Helper()
	until, end := context.WithCancel(context.Background())
	t.Cleanup(end)
	p := peers.StartHost(until, t, l, program(t, l, "cmd/softrdma"), s.command, "-v", "-a", n.device(), dir)
	if err := p.AwaitServing(ctx); err != nil {
		t.Fatal(err)
	}
	return p
}

// filesStart prepares a test: the lab, with the program that the limit does not count the building of.
func filesStart(t *testing.T, limit time.Duration) (context.Context, *lab.Lab) {
	t.Helper()
	l := openLab(t)
	program(t, l, "cmd/softrdma")
	return within(t, limit), l
}

// awaitFile waits until a file of the server has bytes.
func awaitFile(ctx context.Context, t *testing.T, path string) {
	t.Helper()
	for {
		if info, err := os.Stat(path); err == nil && info.Size() > 0 {
			return
		}
		if ctx.Err() != nil {
			t.Fatal(context.Cause(ctx))
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// A share is how a directory is served, and how a guest mounts it.
type share struct{ command, mount string }

var (
	shareNFS = share{"serve-nfs", `
modprobe -a rpcrdma nfsv3
mkdir -p /run/mnt
busybox mount -t nfs -o vers=3,proto=rdma,port=20049,mountproto=tcp,mountport=20048,nolock,addr=$at,mountaddr=$at $at:/ /run/mnt
`}
	share9P = share{"serve-9p", `
modprobe 9pnet_rdma
mkdir -p /run/mnt
busybox mount -t 9p -o trans=rdma,port=5640,version=9p2000.L $at /run/mnt
`}
)

// mountIn mounts what a server of the network serves.
func (s share) mountIn(ctx context.Context, g *lab.Guest, n network) error {
	return tryInGuest(ctx, g, "at="+n.host()+s.mount)
}

// unmount unmounts in a guest what a failed test has left.
func unmount(g *lab.Guest) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	_, _ = g.Run(ctx, "umount", "-f", "-l", "/run/mnt")
}

// inGuest runs a script in a guest, which must succeed.
func inGuest(ctx context.Context, t *testing.T, g *lab.Guest, script string) {
	t.Helper()
	if err := tryInGuest(ctx, g, script); err != nil {
		t.Fatal(err)
	}
}

func tryInGuest(ctx context.Context, g *lab.Guest, script string) error {
	r, err := g.Run(ctx, "sh", "-c", "set -e\n"+script)
	if err != nil {
		return fmt.Errorf("%w\n%s%s", err, r.Stdout, r.Stderr)
	}
	return nil
}

// filesWork writes, reads, compares, verifies, renames and removes files below /run/mnt, or $work, sets attributes, and kills a
// program that writes.
const filesWork = `
cd ${work:-/run/mnt}
head -c 3000001 /dev/urandom >/run/data
cp /run/data copy
echo 3 >/proc/sys/vm/drop_caches
cmp copy /run/data
dd if=/run/data of=sparse bs=1000 count=100 seek=4300000 conv=notrunc 2>/dev/null
dd if=sparse bs=1000 skip=4300000 count=100 2>/dev/null | cmp -n 100000 - /run/data
mkdir many
for i in $(seq 50); do echo $i >many/$i; done
[ $(ls many | wc -l) = 50 ]
mv many renamed
[ $(cat renamed/33) = 33 ]
ln -s renamed/33 link
[ $(cat link) = 33 ]
ls -l renamed >/dev/null
ln -s nowhere dangling
cp -a link linked
touch -h -d @1000000000 link dangling
[ "$(stat -c %Y link dangling)" = "$(echo 1000000000; echo 1000000000)" ]
[ $(stat -c %Y renamed/33) != 1000000000 ]
mkdir -m 1777 shared
[ $(stat -c %a shared) = 1777 ]
rm -r renamed link linked dangling shared sparse
fio --name=verify --directory=$PWD --ioengine=psync --fallocate=none --rw=randwrite --bsrange=512-64k --size=2m --numjobs=2 \
	--verify=crc32c --verify_fatal=1 --verify_state_save=0 --output=/run/fio.said || { cat /run/fio.said; exit 1; }
rm verify.*
dd if=/dev/zero of=killed bs=4k count=1000000 oflag=sync 2>/dev/null & writer=$!
until [ -s killed ]; do sleep .1; done
kill -9 $writer
if wait $writer; then exit 1; fi
cmp -n $(stat -c %s killed) killed /dev/zero
cp /run/data killed
cmp killed /run/data
rm killed
[ "$(ls)" = copy ]
`

func TestFilesLinuxMountsNFSOverRoCE(t *testing.T)  { linuxMountsNFS(t, network{}) }
func TestFilesLinuxMountsNFSOverIWARP(t *testing.T) { linuxMountsNFS(t, network{iwarp: true}) }

// Linux works on files of softrdma's NFS server, which is killed while a file is written, and started again.
func linuxMountsNFS(t *testing.T, n network) {
	ctx, l := filesStart(t, filesLimit)
	g, dir := l.Guests[0], t.TempDir()
	server := filesServe(ctx, t, l, n, shareNFS, dir)
	if err := shareNFS.mountIn(ctx, g, n); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unmount(g) })
	inGuest(ctx, t, g, filesWork)
	inGuest(ctx, t, g, "(cat /run/data /run/data /run/data >/run/mnt/large; echo $? >/run/status) >/dev/null 2>&1 &")
	awaitFile(ctx, t, filepath.Join(dir, "large"))
	server.Kill()
	<-server.Done
	killed := time.Now()
	server = filesServe(ctx, t, l, n, shareNFS, dir)
	inGuest(ctx, t, g, `
while [ ! -e /run/status ]; do sleep .1; done
[ $(cat /run/status) = 0 ]
rm /run/status
echo 3 >/proc/sys/vm/drop_caches
cat /run/data /run/data /run/data | cmp - /run/mnt/large
umount /run/mnt
`)
	t.Logf("the client had written and read everything %v after the server was killed; the new server said:\n%s", time.Since(killed).Round(time.Second), lab.Tail(server.Said(), 1000))
}

// A gaveUpError says that rxe sent no request again and ended a connection.
type gaveUpError struct{ error }

func isGaveUp(err error) bool { return errors.As(err, new(gaveUpError)) }

func TestFilesLinuxMounts9POverRoCE(t *testing.T)  { linuxMounts9P(t, network{}) }
func TestFilesLinuxMounts9POverIWARP(t *testing.T) { linuxMounts9P(t, network{iwarp: true}) }

// Linux works on files of softrdma's 9P server, which ends. Linux does not connect again: the mount fails, and the
// directory is mounted again. It does not complete a request that is in flight then. Over RoCE its client asks for a retry count of 0: if rxe's timer expires
// while a request is in flight, that is the end of the mount, which rxe's counters show.
func linuxMounts9P(t *testing.T, n network) {
	g := openLab(t).Guests[0]
	const attempts = 3
	err := lab.Retry(t, attempts, isGaveUp, func(int) error {
		ctx, l := filesStart(t, 2*filesLimit)
		before, err := g.Counters(ctx)
		if err != nil {
			t.Fatal(err)
		}
		err = use9P(ctx, t, l, g, n)
		if after, failed := g.Counters(context.Background()); err != nil && failed == nil && after["retry_exceeded_err"] > before["retry_exceeded_err"] {
			return gaveUpError{err}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func use9P(ctx context.Context, t *testing.T, l *lab.Lab, g *lab.Guest, n network) (err error) {
	t.Helper()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	dir := t.TempDir()
	server := filesServe(ctx, t, l, n, share9P, dir)
	defer func() {
		t.Logf("the server said:\n%s", lab.Tail(server.Said(), 1000))
		unmount(g)
		server.Kill()
		<-server.Done
	}()
	first := server
	go func() {
		if first.AwaitOutput(ctx, "connection failed") == nil {
			cancel(errors.New("the connection failed"))
		}
	}()
	if err := share9P.mountIn(ctx, g, n); err != nil {
		return err
	}
	if err := tryInGuest(ctx, g, filesWork); err != nil {
		return err
	}
	server.Interrupt()
	<-server.Done
	if err := tryInGuest(ctx, g, `
if ls /run/mnt 2>/run/said; then exit 1; fi
umount /run/mnt
`); err != nil {
		return err
	}
	server = filesServe(ctx, t, l, n, share9P, dir)
	if err := share9P.mountIn(ctx, g, n); err != nil {
		return err
	}
	return tryInGuest(ctx, g, "cmp /run/mnt/copy /run/data\numount /run/mnt")
}
