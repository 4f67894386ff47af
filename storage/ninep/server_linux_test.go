package ninep_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hugelgupf/p9/linux"
	"github.com/hugelgupf/p9/p9"

	"softrdma/rdmacm"
	"softrdma/storage/internal/channel"
	"softrdma/storage/ninep"
	"softrdma/verbs"
)

// A wire is a connection of p9's client: each message is a SEND.
type wire struct {
	c   *channel.Conn
	in  []byte
	out []byte
}

func (w *wire) Read(p []byte) (int, error) {
	if len(w.in) == 0 {
		m, err := w.c.Receive()
		if err != nil {
			return 0, io.EOF
		}
		w.in = bytes.Clone(m.Data)
		w.c.Release(m)
	}
	n := copy(p, w.in)
	w.in = w.in[n:]
	return n, nil
}

func (w *wire) Write(p []byte) (int, error) {
	w.out = append(w.out, p...)
	if size := int(w.out[0]) | int(w.out[1])<<8 | int(w.out[2])<<16; len(w.out) < size {
		return len(p), nil
	}
	b, err := w.c.Buffer(len(w.out))
	if err != nil {
		return 0, err
	}
	defer w.c.Put(b)
	n := copy(b.Bytes, w.out)
	w.out = nil
	return len(p), w.c.Do(verbs.SendWR{Op: verbs.OpSend, SGL: []verbs.SGE{b.SGE(0, n)}})
}

func (w *wire) Close() error { return w.c.Close() }

// serve serves a directory and runs a test with connections to it.
func serve(t *testing.T, dir string, readOnly bool, test func(t *testing.T, dial func() *channel.Conn)) {
	t.Helper()
	serveWith(t, dir, &ninep.Server{ReadOnly: readOnly, Config: ninep.Config{MaxMessage: 8192}}, test)
}

func serveWith(t *testing.T, dir string, s *ninep.Server, test func(t *testing.T, dial func() *channel.Conn)) {
	t.Helper()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	server, client := open(t, "127.0.21.1"), open(t, "127.0.21.2")
	l, err := rdmacm.Listen("127.0.21.1:5640", rdmacm.ListenConfig{Device: server})
	if err != nil {
		t.Fatal(err)
	}
	s.Root = root
	var served sync.WaitGroup
	served.Go(func() { _ = s.Serve(t.Context(), l) })
	test(t, func() *channel.Conn {
		d := rdmacm.Dialer{Device: client}
		e, err := d.Resolve(t.Context(), "127.0.21.1:5640")
		if err != nil {
			t.Fatal(err)
		}
		c, err := channel.Connect(t.Context(), e, channel.Config{Receives: 32, ReceiveSize: 8192, Sends: 32, Memory: 1 << 20}, rdmacm.ConnParam{})
		if err != nil {
			t.Fatal(err)
		}
		return c
	})
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	served.Wait()
	if c := server.Counts(); c != (verbs.Counts{}) {
		t.Errorf("the server has left %+v", c)
	}
}

func open(t *testing.T, address string) *verbs.Device {
	t.Helper()
	d, err := verbs.Open(address, verbs.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

// attachRoot returns the root as p9's client sees it.
func attachRoot(t *testing.T, c *channel.Conn) (p9.File, func()) {
	t.Helper()
	client, err := p9.NewClient(&wire{c: c}, p9.WithMessageSize(8192))
	if err != nil {
		t.Fatal(err)
	}
	root, err := client.Attach("")
	if err != nil {
		t.Fatal(err)
	}
	return root, func() { _ = client.Close() }
}

func walk(t *testing.T, root p9.File, names ...string) p9.File {
	t.Helper()
	_, f, err := root.Walk(names)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestFilesAreWrittenAndRead(t *testing.T) {
	dir := t.TempDir()
	serve(t, dir, false, func(t *testing.T, dial func() *channel.Conn) {
		root, end := attachRoot(t, dial())
		defer end()
		if _, err := root.Mkdir("sub", 0o755, 0, 0); err != nil {
			t.Fatal(err)
		}
		text := []byte(strings.Repeat("What is written is read. ", 1000))
		f, _, _, err := walk(t, root, "sub").Create("file", p9.ReadWrite, 0o644, 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		if n, err := f.WriteAt(text, 7); n != len(text) || err != nil {
			t.Errorf("wrote %d bytes, %v", n, err)
		}
		got := make([]byte, len(text))
		if n, err := f.ReadAt(got, 7); n != len(text) || err != nil || !bytes.Equal(got, text) {
			t.Errorf("read %d bytes, %v", n, err)
		}
		sub := walk(t, root, "sub")
		if err = sub.RenameAt("file", root, "new"); err != nil {
			t.Error(err)
		}
		if n, err := f.ReadAt(got[:10], 7); n != 10 || err != nil {
			t.Errorf("after a rename: read %d bytes, %v", n, err)
		}
		if _, err = root.Symlink("new", "link", 0, 0); err != nil {
			t.Error(err)
		}
		if target, err := walk(t, root, "link").Readlink(); target != "new" || err != nil {
			t.Errorf("the link leads to %q, %v", target, err)
		}
		list := walk(t, root)
		if _, _, err = list.Open(p9.ReadOnly); err != nil {
			t.Fatal(err)
		}
		if entries, err := list.Readdir(0, 4096); err != nil || len(entries) != 3 {
			t.Errorf("found %v, %v", entries, err)
		}
		if err = root.UnlinkAt("sub", 0x200); err != nil {
			t.Error(err)
		}
	})
	if got, err := os.ReadFile(filepath.Join(dir, "new")); err != nil || len(got) != 25007 {
		t.Errorf("found %d bytes, %v", len(got), err)
	}
}

func TestRootCannotBeLeft(t *testing.T) {
	outside := t.TempDir()
	dir := filepath.Join(outside, "served")
	secret := filepath.Join(outside, "secret")
	if err := os.Mkdir(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(secret, []byte("secret"), 0o666); err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]string{"absolute": secret, "relative": "../secret", "directory": outside} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	serve(t, dir, false, func(t *testing.T, dial func() *channel.Conn) {
		root, end := attachRoot(t, dial())
		defer end()
		for _, name := range []string{"absolute", "relative"} {
			for _, mode := range []p9.OpenFlags{p9.ReadOnly, p9.ReadWrite} {
				if _, _, err := walk(t, root, name).Open(mode); err == nil {
					t.Errorf("the link %s leaves the root", name)
				}
			}
			if err := walk(t, root, name).SetAttr(p9.SetAttrMask{Size: true}, p9.SetAttr{}); err == nil {
				t.Errorf("a file outside was truncated by the link %s", name)
			}
		}
		for _, names := range [][]string{{".."}, {"directory", "secret"}, {"..", "secret"}} {
			if _, _, err := root.Walk(names); err == nil {
				t.Errorf("%v leaves the root", names)
			}
		}
	})
	if got, _ := os.ReadFile(secret); string(got) != "secret" {
		t.Errorf("the secret has changed to %q", got)
	}
}

func TestReadOnlyServerChangesNothing(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "file"), []byte("file"), 0o666); err != nil {
		t.Fatal(err)
	}
	serve(t, dir, true, func(t *testing.T, dial func() *channel.Conn) {
		root, end := attachRoot(t, dial())
		defer end()
		f := walk(t, root, "file")
		_, _, _, create := walk(t, root).Create("new", p9.ReadWrite, 0o644, 0, 0)
		_, mkdir := root.Mkdir("new", 0o755, 0, 0)
		_, symlink := root.Symlink("file", "new", 0, 0)
		_, _, write := walk(t, root, "file").Open(p9.WriteOnly)
		for name, err := range map[string]error{
			"create": create, "mkdir": mkdir, "symlink": symlink, "open to write": write, "link": root.Link(f, "new"),
			"unlink": root.UnlinkAt("file", 0), "rename": root.RenameAt("file", root, "new"), "truncate": f.SetAttr(p9.SetAttrMask{Size: true}, p9.SetAttr{}),
		} {
			if err == nil {
				t.Errorf("%s succeeded", name)
			}
		}
	})
	if got, err := os.ReadFile(filepath.Join(dir, "file")); err != nil || string(got) != "file" {
		t.Errorf("found %q, %v", got, err)
	}
}

// A message that is none ends its connection. Extended attributes are refused with an error that
// programs know.
func TestMessagesThatP9DoesNotSee(t *testing.T) {
	serve(t, t.TempDir(), false, func(t *testing.T, dial func() *channel.Conn) {
		bad := dial()
		(&wire{c: bad}).Write([]byte("\x0b\x00\x00\x00\x1e\x05\x00\x00\x00\x00\x00"))
		m, err := bad.Receive()
		if err != nil || string(m.Data) != "\x0b\x00\x00\x00\x07\x05\x00\x5f\x00\x00\x00" {
			t.Errorf("found % x, %v", m.Data, err)
		}
		b, err := bad.Buffer(16)
		if err != nil {
			t.Fatal(err)
		}
		_ = bad.Do(verbs.SendWR{Op: verbs.OpSend, SGL: []verbs.SGE{b.SGE(0, copy(b.Bytes, "\xff\xff\xff\xff\x64\xff\xff\x00"))}})
		if _, err = bad.Receive(); err == nil {
			t.Error("expected the end of the connection")
		}
		bad.Put(b)
		if err = bad.Close(); err != nil {
			t.Error(err)
		}
		_, end := attachRoot(t, dial())
		end()
	})
}

// A message without all of its fields is answered with an error and its tag, which can be used again.
func TestMessageWithoutAllFieldsIsAnsweredWithItsTag(t *testing.T) {
	serve(t, t.TempDir(), false, func(t *testing.T, dial func() *channel.Conn) {
		c := dial()
		defer c.Close()
		for _, exchange := range []struct{ request, reply string }{
			{message(100, 7, "\x00\x20\x00\x00\x08\x009P2000"), message(7, 7, "\x16\x00\x00\x00")},
			{message(100, 0xffff, "\x00\x20\x00\x00\x08\x009P2000.L"), message(101, 0xffff, "\x00\x20\x00\x00\x08\x009P2000.L")},
			{message(110, 5, "\x00\x00\x00\x00\x01\x00\x00\x00\x09\x00\x01\x00a"), message(7, 5, "\x16\x00\x00\x00")}, // walk of nine names, of which one is there
			{message(120, 5, ""), message(7, 5, "\x16\x00\x00\x00")},
			{message(118, 0, strings.Repeat("\x00", 12)+"\x02\x00\x00\x00x"), message(7, 0, "\x16\x00\x00\x00")}, // write of two bytes, of which one is there
			{message(120, 5, "\x01\x00\x00\x00"), message(7, 5, "\x09\x00\x00\x00")},                             // clunk: EBADF
		} {
			(&wire{c: c}).Write([]byte(exchange.request))
			m, err := c.Receive()
			if err != nil || string(m.Data) != exchange.reply {
				t.Fatalf("% x is answered with % x, %v", exchange.request, m.Data, err)
			}
			c.Release(m)
		}
	})
}

// message is a message of a type and a tag with the bytes that follow.
func message(kind byte, tag uint16, rest string) string {
	n := uint32(7 + len(rest))
	return string([]byte{byte(n), byte(n >> 8), byte(n >> 16), 0, kind, byte(tag), byte(tag >> 8)}) + rest
}

// TestMessagesThatStopP9: each of these messages makes p9 wait without end, answer nothing, or
// change what another of its goroutines uses. It ends its connection instead, and the server continues.
func TestMessagesThatStopP9(t *testing.T) {
	const none = "\xff\xff\xff\xff"
	version := message(100, 0xffff, "\x00\x20\x00\x00\x08\x009P2000.L")
	attach := message(104, 1, "\x01\x00\x00\x00"+none+"\x00\x00\x00\x00"+none)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "file"), make([]byte, 8192), 0o666); err != nil {
		t.Fatal(err)
	}
	serve(t, dir, true, func(t *testing.T, dial func() *channel.Conn) {
		for name, messages := range map[string][]string{
			"flush of itself":       {version, message(108, 5, "\x05\x00")},
			"second version":        {version, version},
			"another message first": {attach},
			"reply too long": {
				version, attach, message(110, 1, "\x01\x00\x00\x00\x02\x00\x00\x00\x01\x00\x04\x00file"), message(12, 1, "\x02\x00\x00\x00\x00\x00\x00\x00"),
				message(116, 1, "\x02\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x20\x00\x00"),
			},
		} {
			c := dial()
			for i, m := range messages {
				if _, err := (&wire{c: c}).Write([]byte(m)); err != nil {
					break // the server has ended the connection already
				}
				m, err := c.Receive()
				if last := i == len(messages)-1; last != (err != nil) {
					t.Errorf("%s: message %d: found % x, %v", name, i, m.Data, err)
				}
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
		_, end := attachRoot(t, dial())
		end()
	})
}

// TestOpenFileIsChangedWhateverItsName: a program of the server's system renames it, and makes another.
func TestOpenFileIsChangedWhateverItsName(t *testing.T) {
	dir := t.TempDir()
	name, moved := filepath.Join(dir, "file"), filepath.Join(dir, "moved")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.WriteFile(name, []byte("what is open"), 0o644))
	serve(t, dir, false, func(t *testing.T, dial func() *channel.Conn) {
		root, end := attachRoot(t, dial())
		defer end()
		f := walk(t, root, "file")
		if _, _, err := f.Open(p9.ReadWrite); err != nil {
			t.Fatal(err)
		}
		must(os.Rename(name, moved))
		must(os.WriteFile(name, []byte("another"), 0o644))
		must(f.SetAttr(p9.SetAttrMask{Size: true, Permissions: true}, p9.SetAttr{Size: 4, Permissions: 0o600}))
		for path, want := range map[string]string{name: "another -rw-r--r--", moved: "what -rw-------"} {
			b, err := os.ReadFile(path)
			must(err)
			info, err := os.Stat(path)
			must(err)
			if found := string(b) + " " + info.Mode().String(); found != want {
				t.Errorf("%s: expected %s, found %s", path, want, found)
			}
		}
		must(f.Close())
	})
}

// TestLocksHoldBetweenClients sends the messages of Linux's client. p9's own leaves the file out.
func TestLocksHoldBetweenClients(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "file"), []byte("file"), 0o666); err != nil {
		t.Fatal(err)
	}
	serve(t, dir, false, func(t *testing.T, dial func() *channel.Conn) {
		exchange := func(c *channel.Conn, m string) []byte {
			t.Helper()
			if _, err := (&wire{c: c}).Write([]byte(m)); err != nil {
				t.Fatal(err)
			}
			r, err := c.Receive()
			if err != nil {
				t.Fatal(err)
			}
			defer c.Release(r)
			return bytes.Clone(r.Data)
		}
		open := func() *channel.Conn {
			c := dial()
			for _, m := range []string{
				message(100, 0xffff, "\x00\x20\x00\x00\x08\x009P2000.L"),
				message(104, 1, "\x01\x00\x00\x00\xff\xff\xff\xff\x00\x00\x00\x00\x00\x00\x00\x00"),
				message(110, 1, "\x01\x00\x00\x00\x02\x00\x00\x00\x01\x00\x04\x00file"),
				message(12, 1, "\x02\x00\x00\x00\x02\x00\x00\x00"),
			} {
				if r := exchange(c, m); r[4] != m[4]+1 {
					t.Fatalf("found % x", r)
				}
			}
			return c
		}
		const read, write, unlock = "\x00", "\x01", "\x02"
		lock := func(c *channel.Conn, kind string, first, length byte) string {
			m := "\x02\x00\x00\x00" + kind + "\x00\x00\x00\x00" + string([]byte{first}) + "\x00\x00\x00\x00\x00\x00\x00" +
				string([]byte{length}) + "\x00\x00\x00\x00\x00\x00\x00\x07\x00\x00\x00\x04\x00host"
			r := exchange(c, message(52, 1, m))
			if r[4] != 53 {
				return fmt.Sprintf("% x", r)
			}
			return map[byte]string{0: "locked", 1: "blocked"}[r[7]]
		}
		a, b := open(), open()
		for i, x := range []struct {
			c             *channel.Conn
			kind          string
			first, length byte
			want          string
		}{
			{a, read, 0, 10, "locked"},
			{b, read, 5, 10, "locked"},
			{a, write, 0, 10, "blocked"}, // although both call themselves alike
			{a, write, 0, 5, "locked"},
			{b, read, 0, 0, "blocked"},
			{b, unlock, 0, 0, "locked"},
			{a, write, 0, 0, "locked"},
			{b, read, 200, 1, "blocked"},
		} {
			if found := lock(x.c, x.kind, x.first, x.length); found != x.want {
				t.Errorf("%d: expected %s, found %s", i, x.want, found)
			}
		}
		if r := exchange(b, message(54, 1, "\x02\x00\x00\x00")); r[4] != 7 || r[7] != 95 {
			t.Errorf("a question for the lock's owner: expected EOPNOTSUPP, found % x", r)
		}
		if err := a.Close(); err != nil { // as of a client that is gone
			t.Error(err)
		}
		for range 100 {
			if lock(b, write, 0, 0) == "locked" {
				break
			}
			time.Sleep(50 * time.Millisecond)
		}
		if found := lock(b, write, 0, 0); found != "locked" {
			t.Errorf("after the end of the other client: %s", found)
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestFilesOfClientAreLimited: a client that holds too many files gets an error that says so, other clients
// do not, and files that it ends are no more counted.
func TestFilesOfClientAreLimited(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "a", "b"), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "a", "b", "file"), []byte("file"), 0o666); err != nil {
		t.Fatal(err)
	}
	cfg := ninep.Config{MaxMessage: 8192, Files: 50, Open: 5}
	serveWith(t, dir, &ninep.Server{Config: cfg}, func(t *testing.T, dial func() *channel.Conn) {
		root, end := attachRoot(t, dial())
		defer end()
		other, endOther := attachRoot(t, dial())
		defer endOther()
		hold := func(walk func() (p9.File, error)) (held []p9.File) {
			for range 1000 {
				f, err := walk()
				if errors.Is(err, linux.EMFILE) {
					return held
				}
				if err != nil {
					t.Fatal(err)
				}
				held = append(held, f)
			}
			t.Fatal("no limit")
			return nil
		}
		release := func(held []p9.File) {
			for _, f := range held {
				if err := f.Close(); err != nil {
					t.Error(err)
				}
			}
		}
		named := func(names ...string) func() (p9.File, error) {
			return func() (p9.File, error) { _, f, err := root.Walk(names); return f, err }
		}
		for range 2 {
			held := hold(named())
			if len(held) != 49 { // and the root
				t.Errorf("expected 49 files, found %d", len(held))
			}
			if _, f, err := other.Walk(nil); err != nil {
				t.Errorf("another client: %v", err)
			} else {
				release([]p9.File{f})
			}
			release(held)
			held = hold(named("a", "b", "file"))
			if len(held) != 12 { // with the directories that they were found by
				t.Errorf("expected 12 files, found %d", len(held))
			}
			release(held)
			for range 20 { // what fails is not counted
				if _, _, err := root.Walk([]string{"a", "none"}); !errors.Is(err, linux.ENOENT) {
					t.Fatalf("found %v", err)
				}
			}
			held = hold(func() (p9.File, error) {
				f, err := named("a", "b", "file")()
				if err != nil {
					return nil, err
				}
				if _, _, err = f.Open(p9.ReadOnly); err != nil {
					release([]p9.File{f})
					return nil, err
				}
				return f, nil
			})
			if len(held) != 5 {
				t.Errorf("expected 5 open files, found %d", len(held))
			}
			release(held)
			n := 0
			held = hold(func() (p9.File, error) {
				n++
				f, err := named()()
				if err != nil {
					return nil, err
				}
				if _, _, _, err = f.Create(fmt.Sprintf("new%d", n), p9.ReadWrite, 0o644, 0, 0); err != nil {
					release([]p9.File{f})
					return nil, err
				}
				return f, nil
			})
			if len(held) != 5 {
				t.Errorf("expected 5 files that were made, found %d", len(held))
			}
			release(held)
			for i := range n - 1 {
				if err := root.UnlinkAt(fmt.Sprintf("new%d", i+1), 0); err != nil {
					t.Error(err)
				}
			}
		}
	})
}
