package nfs

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"

	"softrdma/storage/rpcrdma"
	"softrdma/storage/rpcrdma/wire"
)

var noAttributes = strings.Repeat("\x00", 24)

// attributes returns the attributes of a handle.
func (c caller) attributes(handle []byte) (a attr) {
	c.t.Helper()
	status, r, _ := c.nfs(1, handle)
	if status != 0 {
		c.t.Fatalf("GETATTR: status %d", status)
	}
	return parseAttr(r)
}

// parseAttr parses a fattr3.
func parseAttr(b []byte) attr {
	a := args{b: b}
	at := attr{kind: a.uint32(), mode: a.uint32(), links: a.uint32(), uid: a.uint32(), gid: a.uint32(), size: a.uint64(), used: a.uint64(), major: a.uint32(), minor: a.uint32()}
	at.id = fileID{device: a.uint64(), number: a.uint64()}
	at.atime, at.mtime, at.ctime = a.time(), a.time(), a.time()
	return at
}

// create makes a file and returns its handle.
func (c caller) create(dir []byte, name string) []byte {
	c.t.Helper()
	status, r, _ := c.nfs(8, dir, []byte(name), 0, noAttributes)
	if status != 0 {
		c.t.Fatalf("CREATE of %s: status %d", name, status)
	}
	return bytes.Clone(r[8 : 8+handleLen])
}

func (c caller) mkdir(dir []byte, name string) []byte {
	c.t.Helper()
	status, r, _ := c.nfs(9, dir, []byte(name), noAttributes)
	if status != 0 {
		c.t.Fatalf("MKDIR of %s: status %d", name, status)
	}
	return bytes.Clone(r[8 : 8+handleLen])
}

func (c caller) expect(what string, want, found uint32) {
	c.t.Helper()
	if found != want {
		c.t.Errorf("%s: expected status %d, found %d", what, want, found)
	}
}

func TestHardLinks(t *testing.T) {
	dir := t.TempDir()
	c := open(t, dir, false)
	root := c.root()
	h, sub := c.create(root, "file"), c.mkdir(root, "sub")
	c.expect("LINK", 0, first(c.nfs(15, h, sub, []byte("other"))))
	c.expect("LINK to a name that is taken", 17, first(c.nfs(15, h, sub, []byte("other"))))
	c.expect("LINK of a directory", 21, first(c.nfs(15, sub, root, []byte("loop"))))
	if a := c.attributes(h); a.links != 2 {
		t.Errorf("expected 2 links, found %d", a.links)
	}
	// The handle remains that of the file under each of its names.
	c.expect("REMOVE", 0, first(c.nfs(12, root, []byte("file"))))
	c.expect("WRITE", 0, first(c.nfs(7, h, 0, 0, 4, 0, []byte("text"))))
	if got, err := os.ReadFile(filepath.Join(dir, "sub", "other")); err != nil || string(got) != "text" {
		t.Errorf("found %q, %v", got, err)
	}
	c.expect("RENAME of one name to the other", 0, first(c.nfs(15, h, root, []byte("again"))))
	c.expect("RENAME of one name to the other", 0, first(c.nfs(14, root, []byte("again"), sub, []byte("other"))))
	c.expect("REMOVE", 0, first(c.nfs(12, sub, []byte("other"))))
	c.expect("GETATTR by the other name", 0, first(c.nfs(1, h)))
	c.expect("REMOVE", 0, first(c.nfs(12, root, []byte("again"))))
	c.expect("GETATTR of a removed file", 70, first(c.nfs(1, h)))
}

func TestSpecialFiles(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("FIFOs are made on Linux")
	}
	c := open(t, t.TempDir(), false)
	root := c.root()
	for name, kind := range map[string]int{"fifo": kindFIFO, "socket": kindSocket} {
		c.expect("MKNOD of a "+name, 0, first(c.nfs(11, root, []byte(name), kind, noAttributes)))
		h, _ := c.lookup(root, name)
		if a := c.attributes(h); a.kind != uint32(kind) {
			t.Errorf("%s: found kind %d", name, a.kind)
		}
		c.expect("READ of a "+name, 22, first(c.nfs(6, h, 0, 0, 10)))
		c.expect("WRITE of a "+name, 22, first(c.nfs(7, h, 0, 0, 4, 0, []byte("text"))))
	}
	c.expect("MKNOD of a device", 10004, first(c.nfs(11, root, []byte("null"), kindCharacter, noAttributes, 1, 3)))
	c.expect("MKNOD of a file", 10007, first(c.nfs(11, root, []byte("file"), kindFile)))
}

// An exclusive CREATE that is repeated, by whichever run of the server, succeeds. Another fails.
func TestExclusiveCreate(t *testing.T) {
	dir := t.TempDir()
	c := open(t, dir, false)
	root := c.root()
	exclusive := func(c caller, verifier ...int) uint32 {
		return first(c.nfs(8, root, []byte("lock"), 2, verifier[0], verifier[1]))
	}
	c.expect("exclusive CREATE", 0, exclusive(c, -2, 77))
	c.expect("the same again", 0, exclusive(c, -2, 77))
	c.expect("the same after a restart", 0, exclusive(open(t, dir, false), -2, 77))
	c.expect("another", 17, exclusive(c, -2, 78))
	h, _ := c.lookup(root, "lock")
	c.expect("SETATTR", 0, first(c.nfs(2, h, string(words(0, 0, 0, 0, 1, 1, 0)))))
	c.expect("guarded CREATE", 17, first(c.nfs(8, root, []byte("lock"), 1, noAttributes)))
	c.expect("unchecked CREATE", 0, first(c.nfs(8, root, []byte("lock"), 0, noAttributes)))
}

func TestThreeTimes(t *testing.T) {
	c := open(t, t.TempDir(), false)
	root := c.root()
	h := c.create(root, "file")
	set := string(words(0, 0, 0, 0, 2, 1111, 5, 2, 2222, 6, 0))
	c.expect("SETATTR", 0, first(c.nfs(2, h, set)))
	a := c.attributes(h)
	if a.atime != (timestamp{1111, 5}) || a.mtime != (timestamp{2222, 6}) {
		t.Errorf("expected the times 1111 and 2222, found %+v and %+v", a.atime, a.mtime)
	}
	if runtime.GOOS == "linux" && a.ctime.sec < 1e9 {
		t.Errorf("expected the time of the change, found %+v", a.ctime)
	}
	c.expect("SETATTR of one time", 0, first(c.nfs(2, h, string(words(0, 0, 0, 0, 0, 2, 3333, 7, 0)))))
	if a := c.attributes(h); a.atime != (timestamp{1111, 5}) || a.mtime != (timestamp{3333, 7}) {
		t.Errorf("expected the times 1111 and 3333, found %+v and %+v", a.atime, a.mtime)
	}
}

func TestSetattrGuard(t *testing.T) {
	c := open(t, t.TempDir(), false)
	h := c.create(c.root(), "file")
	at := c.attributes(h).ctime
	size := func(guard timestamp) uint32 {
		return first(c.nfs(2, h, string(words(0, 0, 0, 1, 0, 9, 0, 0, 1, uint32(guard.sec), guard.nsec))))
	}
	c.expect("SETATTR with another guard", 10002, size(timestamp{at.sec, at.nsec ^ 1}))
	if a := c.attributes(h); a.size != 0 {
		t.Errorf("the size was set to %d", a.size)
	}
	c.expect("SETATTR with the guard", 0, size(at))
	if a := c.attributes(h); a.size != 9 {
		t.Errorf("expected 9 bytes, found %d", a.size)
	}
}

// Clients may make no programs that run as the user of the server.
func TestModesAreLimited(t *testing.T) {
	c := open(t, t.TempDir(), false)
	h := c.create(c.root(), "file")
	c.expect("SETATTR", 0, first(c.nfs(2, h, string(words(1, 0o6755, 0, 0, 0, 0, 0, 0)))))
	if a := c.attributes(h); a.mode != 0o755 {
		t.Errorf("expected the mode 755, found %o", a.mode)
	}
}

func TestCommitHasVerifierOfWrite(t *testing.T) {
	dir := t.TempDir()
	c := open(t, dir, false)
	h := c.create(c.root(), "file")
	tail := func(status uint32, r []byte, _ []rpcrdma.Item) []byte {
		c.expect("WRITE or COMMIT", 0, status)
		return bytes.Clone(r[len(r)-8:])
	}
	written := tail(c.nfs(7, h, 0, 0, 4, 0, []byte("text")))
	if committed := tail(c.nfs(21, h, 0, 0, 0)); !bytes.Equal(written, committed) {
		t.Errorf("found the verifiers %x and %x", written, committed)
	}
	again := open(t, dir, false)
	if other := tail(again.nfs(21, h, 0, 0, 0)); bytes.Equal(written, other) {
		t.Errorf("another run of the server has the verifier %x, too", other)
	}
}

// TestLostDataChangesTheVerifier: the system tells one client that it could not write data, and the other must
// not take its own for written.
func TestLostDataChangesTheVerifier(t *testing.T) {
	c := open(t, t.TempDir(), false)
	h := c.create(c.root(), "file")
	tail := func(status uint32, r []byte, _ []rpcrdma.Item) []byte {
		c.expect("WRITE or COMMIT", 0, status)
		return bytes.Clone(r[len(r)-8:])
	}
	for _, lose := range []func() uint32{
		func() uint32 { return first(c.nfs(21, h, 0, 0, 0)) },                   // COMMIT
		func() uint32 { return first(c.nfs(7, h, 0, 0, 4, 2, []byte("this"))) }, // WRITE
	} {
		written := tail(c.nfs(7, h, 0, 0, 4, 0, []byte("text")))
		c.s.sync = func(*os.File) error { return &os.PathError{Op: "sync", Path: "file", Err: syscall.EIO} }
		c.expect("WRITE or COMMIT of lost data", 5, lose())
		c.s.sync = (*os.File).Sync
		if committed := tail(c.nfs(21, h, 0, 0, 0)); bytes.Equal(written, committed) {
			t.Errorf("data was lost, and the verifier is %x as before", committed)
		}
	}
}

// A handle names what it named, at any depth, after a rename of a directory above it.
func TestRenameMovesWhatIsBelow(t *testing.T) {
	dir := t.TempDir()
	c := open(t, dir, false)
	root := c.root()
	a, b := c.mkdir(root, "a"), c.mkdir(root, "b")
	deep := c.mkdir(c.mkdir(a, "1"), "2")
	h := c.create(deep, "file")
	c.expect("RENAME", 0, first(c.nfs(14, root, []byte("a"), b, []byte("moved"))))
	c.expect("WRITE", 0, first(c.nfs(7, h, 0, 0, 4, 0, []byte("text"))))
	if got, err := os.ReadFile(filepath.Join(dir, "b", "moved", "1", "2", "file")); err != nil || string(got) != "text" {
		t.Errorf("found %q, %v", got, err)
	}
	if up, status := c.lookup(a, ".."); status != 0 || !bytes.Equal(up, b) {
		t.Errorf("LOOKUP of .. in the moved directory: status %d", status)
	}
	c.expect("RENAME into itself", 22, first(c.nfs(14, b, []byte("moved"), deep, []byte("loop"))))
	c.expect("RENAME to ..", 22, first(c.nfs(14, b, []byte("moved"), root, []byte(".."))))
	c.expect("GETATTR", 0, first(c.nfs(1, h)))
}

// TestSwappedFileIsNotTouched: files change their names while a client uses the handle of one. Every
// change reaches that file or is refused, and the other file keeps its bytes.
func TestSwappedFileIsNotTouched(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	write(t, at("mine"), "mine")
	write(t, at("other"), "other")
	if err := os.Mkdir(at("link"), 0o777); err != nil {
		t.Fatal(err)
	}
	c := open(t, dir, false)
	root := c.root()
	h, _ := c.lookup(root, "mine")
	other := c.attributes(mustLookup(c, root, "other"))
	stop, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		for {
			select {
			case <-stop:
				ended <- nil
				return
			default:
			}
			// The file, another file and a link out of the directory take turns under one name.
			err := errors.Join(
				os.Rename(at("mine"), at("aside")), os.Rename(at("other"), at("mine")), os.Rename(at("mine"), at("other")),
				os.Symlink(at("other"), at("mine")), os.Remove(at("mine")), os.Rename(at("aside"), at("mine")),
			)
			if err != nil {
				ended <- err
				return
			}
		}
	}()
	done := 0
	for i := 0; i < 2000 || done == 0; i++ {
		statuses := []uint32{
			first(c.nfs(7, h, 0, 0, 4, 0, []byte("text"))),
			first(c.nfs(2, h, string(words(1, 0o700, 0, 0, 1, 0, 4, 0, 2, 1111, 5, 0)))),
		}
		for _, s := range statuses {
			if s == 0 {
				done++
			} else if s != 70 {
				t.Fatalf("expected success or NFS3ERR_STALE, found %d", s)
			}
		}
		if len(ended) > 0 {
			break
		}
	}
	close(stop)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(at("other")); err != nil || string(got) != "other" {
		t.Errorf("the other file has %q, %v", got, err)
	}
	if now := c.attributes(mustLookup(c, root, "other")); now.mode != other.mode || now.mtime != other.mtime {
		t.Errorf("the other file had %+v, and has %+v", other, now)
	}
}

// TestHandleOfReplacementRemains: a file that is replaced on the server has a handle that is not valid any more.
// A call that finds this out must not take the handle of the new file away, which another call has just given.
func TestHandleOfReplacementRemains(t *testing.T) {
	dir := t.TempDir()
	c := open(t, dir, false)
	root := c.root()
	other := caller{t, c.s, make([]byte, 4096)}
	for range 500 {
		write(t, filepath.Join(dir, "name"), "old")
		old := mustLookup(c, root, "name")
		write(t, filepath.Join(dir, "aside"), "new")
		if err := os.Rename(filepath.Join(dir, "aside"), filepath.Join(dir, "name")); err != nil {
			t.Fatal(err)
		}
		var both sync.WaitGroup
		both.Go(func() { c.expect("GETATTR of the old file", 70, first(other.nfs(1, old))) })
		h := mustLookup(c, root, "name")
		both.Wait()
		if status := first(c.nfs(1, h)); status != 0 {
			t.Fatalf("GETATTR of the new file: status %d", status)
		}
	}
}

func mustLookup(c caller, dir []byte, name string) []byte {
	c.t.Helper()
	h, status := c.lookup(dir, name)
	c.expect("LOOKUP of "+name, 0, status)
	return h
}

// by executes a call of a client, with an XID.
func (c caller) by(client string, xid uint32, procedure uint32, args ...any) (status uint32) {
	c.t.Helper()
	b := request(programNFS, procedure, args...)
	binary.BigEndian.PutUint32(b, xid)
	reply := make([]byte, 4096)
	ctx := rpcrdma.WithClient(c.t.Context(), netip.MustParseAddrPort(client))
	n, _, err := c.s.Call(ctx, b, reply)
	if err != nil || n < 28 || binary.BigEndian.Uint32(reply) != xid {
		c.t.Errorf("found %x, %v", reply[:n], err)
		return 0
	}
	return binary.BigEndian.Uint32(reply[24:])
}

// A client repeats calls after it has connected again, from another port. They are executed once.
func TestRepeatedCallsAreExecutedOnce(t *testing.T) {
	dir := t.TempDir()
	c := open(t, dir, false)
	root := c.root()
	const client, again, stranger = "192.0.2.1:700", "[::ffff:192.0.2.1]:701", "192.0.2.2:700"
	c.expect("MKDIR", 0, c.by(client, 5, 9, root, []byte("d"), noAttributes))
	c.expect("MKDIR, repeated", 0, c.by(again, 5, 9, root, []byte("d"), noAttributes))
	c.expect("MKDIR, new", 17, c.by(again, 6, 9, root, []byte("d"), noAttributes))
	c.expect("MKDIR of another", 17, c.by(stranger, 5, 9, root, []byte("d"), noAttributes))
	c.expect("RMDIR", 0, c.by(client, 7, 13, root, []byte("d")))
	c.expect("RMDIR, repeated", 0, c.by(again, 7, 13, root, []byte("d")))
	c.expect("another call with the number", 2, c.by(again, 7, 13, root, []byte("e")))

	// What was written since is not undone.
	h := c.create(root, "file")
	c.expect("WRITE", 0, c.by(client, 8, 7, h, 0, 0, 3, 0, []byte("old")))
	c.expect("WRITE", 0, c.by(client, 9, 7, h, 0, 0, 3, 0, []byte("new")))
	c.expect("WRITE, repeated", 0, c.by(again, 8, 7, h, 0, 0, 3, 0, []byte("old")))
	if got, err := os.ReadFile(filepath.Join(dir, "file")); err != nil || string(got) != "new" {
		t.Errorf("found %q, %v", got, err)
	}
}

// A call that is repeated while the first is executed gets the same answer.
func TestRepeatedCallsAtOnce(t *testing.T) {
	c := open(t, t.TempDir(), false)
	root := c.root()
	for xid := range uint32(50) {
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				c.expect("MKDIR", 0, c.by("192.0.2.1:700", xid, 9, root, fmt.Appendf(nil, "d%d", xid), noAttributes))
			})
		}
		all.Wait()
	}
}

// A call that had no room for its answer is executed when it is repeated with more.
func TestFailedCallIsNotKept(t *testing.T) {
	r := newReplays()
	client, h := netip.MustParseAddrPort("192.0.2.1:700"), wire.Call{XID: 1}
	runs := 0
	run := func(err error) func() (int, error) {
		return func() (int, error) { runs++; return 0, err }
	}
	if _, err := r.do(client, h, nil, nil, run(rpcrdma.ErrReplySize)); !errors.Is(err, rpcrdma.ErrReplySize) {
		t.Errorf("found %v", err)
	}
	for range 2 {
		if _, err := r.do(client, h, nil, nil, run(nil)); err != nil {
			t.Error(err)
		}
	}
	if runs != 2 {
		t.Errorf("expected 2 runs, found %d", runs)
	}
}

// Whatever clients do, what is kept of their calls is bounded, and the last calls are.
func TestReplaysAreBounded(t *testing.T) {
	r := newReplays()
	do := func(client netip.AddrPort, xid uint32) (executed bool) {
		_, _ = r.do(client, wire.Call{XID: xid}, nil, make([]byte, 4), func() (int, error) { executed = true; return 4, nil })
		return executed
	}
	client := netip.MustParseAddrPort("192.0.2.1:700")
	const calls = 3*maxReplays + 7
	for xid := range uint32(calls) {
		do(client, xid)
	}
	if n := len(r.clients[client.Addr()].calls); n != maxReplays {
		t.Errorf("expected %d calls, found %d", maxReplays, n)
	}
	for xid := uint32(calls - maxReplays); xid < calls; xid++ {
		if do(client, xid) {
			t.Fatalf("call %d was executed again", xid)
		}
	}
	if !do(client, calls-maxReplays-1) {
		t.Error("a call that is forgotten was answered")
	}
	other := netip.MustParseAddr("198.18.0.0")
	for range 2 * maxClients {
		other = other.Next()
		do(netip.AddrPortFrom(other, 1), 1)
		do(client, calls) // which is the one that is never the oldest
	}
	if n := len(r.clients); n != maxClients {
		t.Errorf("expected %d clients, found %d", maxClients, n)
	}
	if do(client, calls) || do(netip.AddrPortFrom(other, 9), 1) || !do(netip.MustParseAddrPort("198.18.0.1:1"), 1) {
		t.Error("the wrong client was forgotten")
	}
}

// TestManySmallFiles: a directory of 10,000 files is written, listed and removed.
func TestManySmallFiles(t *testing.T) {
	const files = 10000
	dir := t.TempDir()
	c := open(t, dir, false)
	root := c.root()
	sub := c.mkdir(root, "sub")
	handles := map[string][]byte{}
	for i := range files {
		name := fmt.Sprintf("file%d", i)
		h := c.create(sub, name)
		handles[name] = h
		c.expect("WRITE", 0, first(c.nfs(7, h, 0, 0, len(name), 0, []byte(name))))
	}
	seen := c.list(sub, 17)
	if len(seen) != files+2 {
		t.Errorf("expected %d names, found %d", files+2, len(seen))
	}
	for name, h := range seen {
		if name != "." && name != ".." && string(h) != string(handles[name]) {
			t.Errorf("%s has the handle %x in the list, and %x", name, h, handles[name])
		}
	}
	c.expect("RENAME", 0, first(c.nfs(14, root, []byte("sub"), root, []byte("moved"))))
	for name, h := range handles {
		status, r, items := c.nfs(6, h, 0, 0, 100)
		if status != 0 || len(items) != 1 || string(r[items[0].Offset-28:][:items[0].Length]) != name {
			t.Fatalf("READ of %s: status %d, %v", name, status, items)
		}
	}
	for name := range handles {
		c.expect("REMOVE", 0, first(c.nfs(12, sub, []byte(name))))
	}
	c.expect("RMDIR", 0, first(c.nfs(13, root, []byte("moved"))))
	if n := len(c.s.tree.nodes); n != 1 {
		t.Errorf("expected the root's handle only, found %d", n)
	}
}

// list reads a directory in pieces by READDIR (16) or READDIRPLUS (17), and fails if a name comes twice.
func (c caller) list(dir []byte, procedure uint32) map[string][]byte {
	c.t.Helper()
	seen := map[string][]byte{}
	cookie := uint64(0)
	for {
		counts := words(4096)
		if procedure == 17 {
			counts = words(1000, 4096)
		}
		status, r, _ := c.nfs(procedure, dir, string(words(uint32(cookie>>32), uint32(cookie), 0, 0)), string(counts))
		if status != 0 {
			c.t.Fatalf("READDIR: status %d", status)
		}
		a := args{b: r}
		a.take(a.int() * fattrLen)
		a.uint64()
		for a.uint32() == 1 {
			a.uint64()
			name := a.name()
			cookie = a.uint64()
			var h []byte
			if procedure == 17 {
				a.take(a.int() * fattrLen)
				if a.uint32() == 1 {
					h = bytes.Clone(a.handle())
				}
			}
			if _, twice := seen[name]; twice {
				c.t.Errorf("%s was listed twice", name)
			}
			seen[name] = h
		}
		if end := a.uint32(); a.bad {
			c.t.Fatalf("found the list %x", r)
		} else if end == 1 {
			return seen
		}
	}
}

func (a *args) int() int { return int(a.uint32()) }

// A directory that is emptied while it is read is read to its end.
func TestDirectoryIsReadWhileFilesAreRemoved(t *testing.T) {
	dir := t.TempDir()
	c := open(t, dir, false)
	root := c.root()
	for i := range 500 {
		c.create(root, fmt.Sprintf("file%03d", i))
	}
	for range 500 {
		status, r, _ := c.nfs(16, root, 0, 0, 0, 0, 1024)
		if status != 0 {
			t.Fatalf("READDIR: status %d", status)
		}
		a := args{b: r[4+fattrLen+8:]}
		removed := 0
		for a.uint32() == 1 {
			a.uint64()
			if name := a.name(); name != "." && name != ".." {
				c.expect("REMOVE of "+name, 0, first(c.nfs(12, root, []byte(name))))
				removed++
			}
			a.uint64()
		}
		if removed == 0 {
			break
		}
	}
	if names, err := os.ReadDir(dir); err != nil || len(names) != 0 {
		t.Errorf("%d files are left, %v", len(names), err)
	}
}

// A directory that has no room for an entry is not an empty one.
func TestListWithoutRoom(t *testing.T) {
	c := open(t, t.TempDir(), false)
	root := c.root()
	c.expect("READDIR", 10005, first(c.nfs(16, root, 0, 0, 0, 0, 50)))
	c.expect("READDIRPLUS", 10005, first(c.nfs(17, root, 0, 0, 0, 0, 50, 120)))
	c.expect("READDIR with an unknown verifier", 10003, first(c.nfs(16, root, 0, 0, 1, 2, 4096)))
}

func TestAccessOfReadOnlyService(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "file"), "file")
	for readOnly, want := range map[bool]uint32{false: accessRead | accessModify | accessExtend, true: accessRead} {
		c := open(t, dir, readOnly)
		h, _ := c.lookup(c.root(), "file")
		status, r, _ := c.nfs(4, h, 63)
		if got := binary.BigEndian.Uint32(r[len(r)-4:]); status != 0 || got != want {
			t.Errorf("read-only %v: expected %d, found %d", readOnly, want, got)
		}
	}
}

func TestLargeSparseFile(t *testing.T) {
	dir := t.TempDir()
	c := open(t, dir, false)
	h := c.create(c.root(), "file")
	const at = 4<<30 - 3
	c.expect("WRITE", 0, first(c.nfs(7, h, string(words(0, 1<<32-3)), 6, 0, []byte("across"))))
	if a := c.attributes(h); a.size != at+6 || a.used > 1<<20 {
		t.Errorf("expected %d bytes and a hole, found %d of which %d are used", uint64(at+6), a.size, a.used)
	}
	for off, want := range map[uint64]string{at: "across", at - 2: "\x00\x00across", at + 4: "ss", at + 9: "", 1 << 63: ""} {
		status, r, items := c.nfs(6, h, string(words(uint32(off>>32), uint32(off))), 100)
		if status != 0 || len(items) != 1 || string(r[items[0].Offset-28:][:items[0].Length]) != want {
			t.Errorf("READ at %d: status %d, %v", off, status, items)
		} else if eof := binary.BigEndian.Uint32(r[items[0].Offset-28-8:]); eof != 1 {
			t.Errorf("READ at %d: expected the end of the file", off)
		}
	}
	c.expect("WRITE beyond what a file can have", 27, first(c.nfs(7, h, -1, -1, 1, 0, []byte("x"))))
	c.expect("SETATTR", 0, first(c.nfs(2, h, string(words(0, 0, 0, 1, 0, 2, 0, 0, 0)))))
	if info, err := os.Stat(filepath.Join(dir, "file")); err != nil || info.Size() != 2 {
		t.Errorf("expected 2 bytes, found %v, %v", info, err)
	}
}
