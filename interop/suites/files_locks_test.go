//go:build interop && linux

package suites

import (
	"testing"
	"time"

	"softrdma/interop/lab"
)

// lockTool is "lock TYPE FIRST LENGTH" of fcntl, which holds the lock until its input ends, and says what F_GETLK says of
// another's.
const lockTool = `
cat >/run/lock.py <<'PY'
import errno, fcntl, struct, sys
kind, first, length = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
f = open("/run/mnt/locked", "r+b")
request = struct.pack("hhqqi4x", {"read": fcntl.F_RDLCK, "write": fcntl.F_WRLCK}[kind.removeprefix("get-")], 0, first, length, 0)
try:
    if kind.startswith("get-"):
        print("free" if struct.unpack("hhqqi4x", fcntl.fcntl(f, fcntl.F_GETLK, request))[0] == fcntl.F_UNLCK else "held", flush=True)
        sys.exit(0)
    fcntl.fcntl(f, fcntl.F_SETLK, request)
except OSError as e:
    sys.exit(errno.errorcode[e.errno])
print("locked", flush=True)
sys.stdin.read()
PY
`

// Programs of two guests lock ranges of a file, by fcntl and flock.
func TestFilesLocksOfTwoGuestsBy9P(t *testing.T) {
	ctx, l := filesStart(t, filesLimit)
	n := network{}
	server := filesServe(ctx, t, l, n, share9P, t.TempDir())
	for _, g := range l.Guests {
		if err := share9P.mountIn(ctx, g, n); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { unmount(g) })
		inGuest(ctx, t, g, lockTool+"touch /run/mnt/locked")
	}
	a, b := l.Guests[0], l.Guests[1]
	holds := func(g *lab.Guest, command string) (end func()) {
		t.Helper()
		inGuest(ctx, t, g, "rm -f /run/hold; mkfifo /run/hold")
		p, err := g.Start(ctx, "sh", "-c", "exec "+command+" <>/run/hold")
		if err == nil {
			err = p.WaitOutput(ctx, "locked")
		}
		if err != nil {
			t.Fatal(err)
		}
		return func() {
			_ = p.Kill()
			_, _ = p.Wait(ctx)
		}
	}
	fails := func(g *lab.Guest, command string) {
		t.Helper()
		inGuest(ctx, t, g, "if "+command+" </dev/null; then exit 1; fi")
	}
	const tool, whole = "python3 /run/lock.py ", "flock /run/mnt/locked sh -c 'echo locked; exec cat'"
	end := holds(b, whole)
	fails(a, "flock -n /run/mnt/locked true")
	fails(a, "flock -n -s /run/mnt/locked true")
	inGuest(ctx, t, a, tool+"write 0 1 </dev/null 2>/run/said && exit 1; grep EAGAIN /run/said")
	inGuest(ctx, t, a, tool+"get-write 0 1 2>/run/said && exit 1; grep -E 'EOPNOTSUPP|ENOTSUP' /run/said")
	end()
	inGuest(ctx, t, a, "flock -n /run/mnt/locked true")
	end = holds(b, "flock -s /run/mnt/locked sh -c 'echo locked; exec cat'")
	inGuest(ctx, t, a, "flock -n -s /run/mnt/locked true")
	fails(a, "flock -n /run/mnt/locked true")
	end()

	end = holds(b, tool+"write 100 100")
	inGuest(ctx, t, a, tool+"write 0 100 </dev/null; "+tool+"read 200 0 </dev/null")
	fails(a, tool+"read 199 1")
	fails(a, tool+"write 0 0")
	end()
	end = holds(b, tool+"read 0 0")
	inGuest(ctx, t, a, tool+"read 50 10 </dev/null")
	fails(a, tool+"write 50 10")
	// Linux asks again for a lock that it waits for, every 30 s.
	waiting := make(chan error, 1)
	began := time.Now()
	go func() { waiting <- tryInGuest(ctx, a, "flock -w 100 /run/mnt/locked true") }()
	time.Sleep(time.Second) // usually it has asked by then
	end()
	if err := <-waiting; err != nil {
		t.Error(err)
	}
	t.Logf("a program had the lock that it waited for after %v", time.Since(began).Round(time.Second))
	for _, g := range l.Guests {
		inGuest(ctx, t, g, "umount /run/mnt")
	}
	t.Logf("the server said:\n%s", lab.Tail(server.Said(), 1000))
}
