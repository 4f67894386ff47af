package nfs

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"softrdma/storage/rpcrdma"
	"softrdma/storage/rpcrdma/wire"
)

// A caller executes calls on a service.
type caller struct {
	t     *testing.T
	s     *Service
	reply []byte
}

func open(t *testing.T, dir string, readOnly bool) caller {
	t.Helper()
	s, err := Open(dir, readOnly)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return caller{t, s, make([]byte, 1<<16)}
}

// request writes a call. Arguments are words, byte slices that become opaque items, and strings that are
// appended as they are.
func request(program, procedure uint32, args ...any) []byte {
	b := words(7, 0, 2, program, version, procedure, 0, 0, 0, 0)
	for _, a := range args {
		switch a := a.(type) {
		case int:
			b = append(b, words(uint32(a))...)
		case []byte:
			b = append(b, words(uint32(len(a)))...)
			b = append(b, a...)
			b = append(b, make([]byte, wire.Pad(len(a))-len(a))...)
		case string:
			b = append(b, a...)
		}
	}
	return b
}

func words(w ...uint32) (b []byte) {
	for _, w := range w {
		b = binary.BigEndian.AppendUint32(b, w)
	}
	return b
}

// nfs executes a call of NFS and returns the results after the status, and the items. They are valid until
// the next call.
func (c caller) nfs(procedure uint32, args ...any) (status uint32, results []byte, items []rpcrdma.Item) {
	c.t.Helper()
	reply := c.reply // of the last call, too
	n, items, err := c.s.Call(c.t.Context(), request(programNFS, procedure, args...), reply)
	if err != nil {
		c.t.Fatal(err)
	}
	if accepted := binary.BigEndian.Uint32(reply[20:]); accepted != 0 || n < 28 {
		c.t.Fatalf("procedure %d: expected a result, found %x", procedure, reply[:n])
	}
	return binary.BigEndian.Uint32(reply[24:]), reply[28:n], items
}

// root returns the handle of the root, asked for by MOUNT over TCP.
func (c caller) root() []byte {
	c.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		c.t.Fatal(err)
	}
	var served sync.WaitGroup
	defer served.Wait()
	defer l.Close()
	served.Go(func() { _ = c.s.ServeMount(c.t.Context(), l) })
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		c.t.Fatal(err)
	}
	defer conn.Close()
	exchange := func(call []byte) []byte {
		if _, err := conn.Write(append(words(uint32(len(call))|markLast), call...)); err != nil {
			c.t.Fatal(err)
		}
		mark := make([]byte, 4)
		if _, err = io.ReadFull(conn, mark); err != nil {
			c.t.Fatal(err)
		}
		reply := make([]byte, binary.BigEndian.Uint32(mark)&^markLast)
		if _, err = io.ReadFull(conn, reply); err != nil {
			c.t.Fatal(err)
		}
		return reply
	}
	if r := exchange(request(programNFS, 0)); binary.BigEndian.Uint32(r[20:]) != statUnavail {
		c.t.Errorf("NFS over TCP: expected the program to be unavailable, found %x", r)
	}
	if r := exchange(request(programMount, 1, []byte("/elsewhere"))); binary.BigEndian.Uint32(r[24:]) == 0 {
		c.t.Errorf("MOUNT of another directory: found %x", r)
	}
	r := exchange(request(programMount, 1, []byte("/")))
	if binary.BigEndian.Uint32(r[20:]) != 0 || binary.BigEndian.Uint32(r[24:]) != 0 {
		c.t.Fatalf("MOUNT: found %x", r)
	}
	return r[32 : 32+binary.BigEndian.Uint32(r[28:])]
}

func (c caller) lookup(dir []byte, name string) (handle []byte, status uint32) {
	c.t.Helper()
	status, r, _ := c.nfs(3, dir, []byte(name))
	if status != 0 {
		return nil, status
	}
	return bytes.Clone(r[4 : 4+binary.BigEndian.Uint32(r)]), 0
}

func TestFilesAreWrittenAndRead(t *testing.T) {
	dir := t.TempDir()
	c := open(t, dir, false)
	root := c.root()
	unset := strings.Repeat("\x00", 24)
	if status, _, _ := c.nfs(8, root, []byte("file"), 0, unset); status != 0 {
		t.Fatalf("CREATE: status %d", status)
	}
	h, _ := c.lookup(root, "file")
	text := []byte(strings.Repeat("What is written is read. ", 1000))
	if status, _, _ := c.nfs(7, h, 0, 0, len(text), 2, text); status != 0 {
		t.Fatalf("WRITE: status %d", status)
	}
	status, r, items := c.nfs(6, h, 0, 3, 1000)
	if status != 0 || len(items) != 1 || items[0].Length != 1000 || !bytes.Equal(r[items[0].Offset-28:][:1000], text[3:1003]) {
		t.Errorf("READ: status %d, items %v", status, items)
	}
	if status, _, _ = c.nfs(14, root, []byte("file"), root, []byte("new")); status != 0 {
		t.Errorf("RENAME: status %d", status)
	}
	if status, _, _ = c.nfs(6, h, 0, 0, 10); status != 0 {
		t.Errorf("READ by the handle of a renamed file: status %d", status)
	}
	if got, err := os.ReadFile(filepath.Join(dir, "new")); err != nil || !bytes.Equal(got, text) {
		t.Errorf("the file has other bytes: %v", err)
	}
	if status, _, _ = c.nfs(12, root, []byte("new")); status != 0 {
		t.Errorf("REMOVE: status %d", status)
	}
	if status, _, _ = c.nfs(6, h, 0, 0, 10); status != 70 {
		t.Errorf("READ of a removed file: expected NFS3ERR_STALE, found %d", status)
	}
}

// A client keeps its handles when the server is started again.
func TestHandlesSurviveRestart(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a", "b", "file"), "contents")
	c := open(t, dir, false)
	h := c.root()
	for _, name := range []string{"a", "b", "file"} {
		h, _ = c.lookup(h, name)
	}
	again := open(t, dir, false)
	status, r, items := again.nfs(6, h, 0, 0, 100)
	if status != 0 || len(items) != 1 || string(r[items[0].Offset-28:][:8]) != "contents" {
		t.Errorf("status %d, %v", status, items)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o777), os.WriteFile(path, []byte(text), 0o666)); err != nil {
		t.Fatal(err)
	}
}

func TestRootCannotBeLeft(t *testing.T) {
	outside := t.TempDir()
	write(t, filepath.Join(outside, "secret"), "secret")
	dir := filepath.Join(outside, "served")
	write(t, filepath.Join(dir, "sub", "file"), "file")
	c := open(t, dir, false)
	root := c.root()
	for _, target := range []string{outside, "..", "../secret", filepath.Join(outside, "secret")} {
		if err := os.Symlink(target, filepath.Join(dir, "link")); err != nil {
			t.Fatal(err)
		}
		link, status := c.lookup(root, "link")
		if status != 0 {
			t.Fatalf("LOOKUP of a link: status %d", status)
		}
		if status, _, _ = c.nfs(6, link, 0, 0, 6); status == 0 {
			t.Errorf("READ through a link to %s succeeded", target)
		}
		if status, _, _ = c.nfs(7, link, 0, 0, 1, 2, []byte("x")); status == 0 {
			t.Errorf("WRITE through a link to %s succeeded", target)
		}
		if _, status = c.lookup(link, "secret"); status == 0 {
			t.Errorf("LOOKUP through a link to %s succeeded", target)
		}
		if err := os.Remove(filepath.Join(dir, "link")); err != nil {
			t.Fatal(err)
		}
	}
	if _, status := c.lookup(root, ".."); status == 0 {
		t.Error("LOOKUP of .. in the root succeeded")
	}
	sub, _ := c.lookup(root, "sub")
	if h, status := c.lookup(sub, ".."); status != 0 || !bytes.Equal(h, root) {
		t.Errorf("LOOKUP of .. below the root: status %d", status)
	}
	reply := make([]byte, 1000)
	n, _, err := c.s.Call(t.Context(), request(programNFS, 3, root, []byte("../secret")), reply)
	if err != nil || binary.BigEndian.Uint32(reply[20:]) != statGarbage {
		t.Errorf("a name with a slash: found %x, %v", reply[:n], err)
	}
	if got, _ := os.ReadFile(filepath.Join(outside, "secret")); string(got) != "secret" {
		t.Errorf("the secret has changed to %q", got)
	}
}

func TestReadOnlyServiceChangesNothing(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "file"), "file")
	c := open(t, dir, true)
	root := c.root()
	h, _ := c.lookup(root, "file")
	unset := strings.Repeat("\x00", 24)
	for name, status := range map[string]uint32{
		"CREATE":  first(c.nfs(8, root, []byte("new"), 0, unset)),
		"WRITE":   first(c.nfs(7, h, 0, 0, 1, 2, []byte("x"))),
		"SETATTR": first(c.nfs(2, h, words(1, 0), unset[4:])),
		"MKDIR":   first(c.nfs(9, root, []byte("d"), unset)),
		"REMOVE":  first(c.nfs(12, root, []byte("file"))),
		"RENAME":  first(c.nfs(14, root, []byte("file"), root, []byte("new"))),
		"SYMLINK": first(c.nfs(10, root, []byte("l"), unset, []byte("file"))),
	} {
		if status != 30 {
			t.Errorf("%s: expected NFS3ERR_ROFS, found %d", name, status)
		}
	}
	if names, err := os.ReadDir(dir); err != nil || len(names) != 1 {
		t.Errorf("found %v, %v", names, err)
	}
}

// TestHandlesOfRemovedFilesAreForgotten: otherwise clients that make and remove files fill the memory.
func TestHandlesOfRemovedFilesAreForgotten(t *testing.T) {
	c := open(t, t.TempDir(), false)
	root := c.root()
	unset := strings.Repeat("\x00", 24)
	kept := len(c.s.tree.nodes)
	for range 3 {
		for _, name := range []string{"a", "b"} {
			if status, _, _ := c.nfs(8, root, []byte(name), 0, unset); status != 0 {
				t.Fatalf("CREATE: status %d", status)
			}
		}
		if status, _, _ := c.nfs(14, root, []byte("a"), root, []byte("b")); status != 0 {
			t.Errorf("RENAME: status %d", status)
		}
		if h, status := c.lookup(root, "b"); status != 0 || first(c.nfs(1, h)) != 0 {
			t.Errorf("LOOKUP of the renamed file: status %d", status)
		}
		if status, _, _ := c.nfs(12, root, []byte("b")); status != 0 {
			t.Errorf("REMOVE: status %d", status)
		}
	}
	if n := len(c.s.tree.nodes); n != kept {
		t.Errorf("expected %d files with handles, found %d", kept, n)
	}
}

func first(status uint32, _ []byte, _ []rpcrdma.Item) uint32 { return status }

// Calls that are not valid get an answer of RPC, and messages that are no calls an error.
func TestWrongCallsAreAnswered(t *testing.T) {
	c := open(t, t.TempDir(), false)
	root := c.root()
	old := request(programNFS, 0)
	old[19] = 4
	for name, x := range map[string]struct {
		call []byte
		want uint32
	}{
		"program":       {request(100227, 1), statUnavail},
		"version":       {old, statMismatch},
		"handle":        {request(programNFS, 1, make([]byte, 65)), statGarbage},
		"huge handle":   {request(programNFS, 1, 1<<31-1), statGarbage},
		"no arguments":  {request(programNFS, 6), statGarbage},
		"huge data":     {request(programNFS, 7, root, 0, 0, 9, 2, 1<<31-1), statGarbage},
		"long name":     {request(programNFS, 3, root, make([]byte, 256)), statGarbage},
		"symlink":       {request(programNFS, 10, root, []byte("l"), "\x00\x00\x00\x01"), statGarbage},
		"unknown":       {request(programNFS, 99), statProcedure},
		"root's length": {request(programMount, 1, 1<<30), statGarbage},
	} {
		reply := make([]byte, 1000)
		n, _, err := c.s.Call(t.Context(), x.call, reply)
		if err != nil || n < 24 || binary.BigEndian.Uint32(reply[20:]) != x.want {
			t.Errorf("%s: expected %d, found %x, %v", name, x.want, reply[:n], err)
		}
	}
	for name, b := range map[string][]byte{"empty": nil, "reply": words(1, 1, 0, 0, 0, 0, 0, 0, 0, 0)} {
		if _, _, err := c.s.Call(t.Context(), b, nil); !errors.Is(err, wire.ErrCall) {
			t.Errorf("%s: found %v", name, err)
		}
	}
	if _, _, err := c.s.Call(t.Context(), request(programNFS, 1, root), make([]byte, 30)); !errors.Is(err, rpcrdma.ErrReplySize) {
		t.Errorf("a reply without room: found %v", err)
	}
}

// A directory is read in pieces, each name once.
func TestLargeDirectory(t *testing.T) {
	dir := t.TempDir()
	for i := range 100 {
		write(t, filepath.Join(dir, "f"+string(rune('0'+i/10))+string(rune('0'+i%10))), "")
	}
	c := open(t, dir, false)
	root := c.root()
	seen := map[string]int{}
	cookie, verifier := []byte(strings.Repeat("\x00", 8)), strings.Repeat("\x00", 8)
	for range 100 {
		status, r, _ := c.nfs(16, root, string(cookie), verifier, 4096)
		if status != 0 {
			t.Fatalf("READDIR: status %d", status)
		}
		r = r[88:] // attributes
		verifier, r = string(r[:8]), r[8:]
		for binary.BigEndian.Uint32(r) == 1 {
			n := int(binary.BigEndian.Uint32(r[12:]))
			seen[string(r[16:16+n])]++
			r = r[16+wire.Pad(n):]
			cookie, r = r[:8], r[8:]
		}
		if binary.BigEndian.Uint32(r[4:]) == 1 {
			break
		}
	}
	if len(seen) != 102 {
		t.Errorf("expected 102 names, found %d", len(seen))
	}
	for name, n := range seen {
		if n != 1 {
			t.Errorf("%s was listed %d times", name, n)
		}
	}
}

// TestForgedHandlesCostNoSearch: without a check, the first handle that the server does not know makes it search
// the whole directory.
func TestForgedHandlesCostNoSearch(t *testing.T) {
	dir := t.TempDir()
	for name := range 20 {
		if err := os.WriteFile(filepath.Join(dir, strconv.Itoa(name)), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	before := open(t, dir, false)
	_, r, _ := before.nfs(3, before.root(), []byte("7"))
	handle := bytes.Clone(r[4 : 4+handleLen])
	c := open(t, dir, false)
	for at := range handle {
		forged := bytes.Clone(handle)
		forged[at] ^= 1
		status, _, _ := c.nfs(1, forged)
		c.expect("forged handle", uint32(errStale), status)
	}
	if n := len(c.s.tree.nodes); n != 1 {
		t.Errorf("forged handles have made the server look at %d files", n-1)
	}
	status, _, _ := c.nfs(1, handle)
	c.expect("handle of the last server", 0, status)
}

// Whatever a call is, it is answered or refused, and the answer fits.
func FuzzCall(f *testing.F) {
	c := fuzzed(f)
	handle := c.tree.key.handle(c.tree.top.id)
	attributes := strings.Repeat("\x00", 24)
	for _, b := range [][]byte{
		request(programNFS, 2, handle, attributes, 1, 1, 2),
		request(programNFS, 7, handle, 0, 0, 4, 2, []byte("data")),
		request(programNFS, 8, handle, []byte("f"), 2, 1, 2),
		request(programNFS, 10, handle, []byte("l"), attributes, []byte("to")),
		request(programNFS, 11, handle, []byte("p"), 7, attributes),
		request(programNFS, 14, handle, []byte("f"), handle, []byte("g")),
		request(programNFS, 15, handle, handle, []byte("g")),
		request(programNFS, 17, handle, 0, 0, 0, 0, 512, 4096),
		request(programMount, 1, []byte("/")),
	} {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		reply := make([]byte, 2000)
		n, items, err := c.Call(t.Context(), b, reply)
		if n > len(reply) || err == nil && n < acceptedLen {
			t.Fatalf("found a reply of %d bytes, %v", n, err)
		}
		for _, i := range items {
			if i.Offset < 0 || i.Length < 0 || i.Offset%4 != 0 || i.Offset+i.Length > n {
				t.Fatalf("found the item %+v in a reply of %d bytes", i, n)
			}
		}
	})
}

// FuzzMount sends any bytes to the server of MOUNT, which answers or ends the connection.
func FuzzMount(f *testing.F) {
	s := fuzzed(f)
	call := request(programMount, 1, []byte("/"))
	f.Add(append(words(uint32(len(call))|markLast), call...))
	f.Add(words(markLast | 5))
	f.Fuzz(func(t *testing.T, b []byte) {
		here, there := net.Pipe()
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for s.mountCall(t.Context(), there) == nil {
			}
			there.Close()
		}()
		go func() { _, _ = io.Copy(io.Discard, here) }()
		_, _ = here.Write(b)
		here.Close()
		<-ended
	})
}

func fuzzed(f *testing.F) *Service {
	f.Helper()
	s, err := Open(f.TempDir(), false)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { s.Close() })
	return s
}
