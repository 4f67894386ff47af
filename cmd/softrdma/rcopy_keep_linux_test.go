package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"softrdma/rdmanet"
)

// oldFile makes a directory with a file that copies will replace.
func oldFile(t *testing.T) (dir, file string) {
	t.Helper()
	dir = t.TempDir()
	file = filepath.Join(dir, "name")
	if err := os.WriteFile(file, []byte("the old one"), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir, file
}

// stillOld checks that the file is whole, and that n partial files are beside it.
func stillOld(t *testing.T, file string, n int) {
	t.Helper()
	if b, err := os.ReadFile(file); string(b) != "the old one" {
		t.Errorf("the old file: %d bytes, %v", len(b), err)
	}
	partials(t, filepath.Dir(file), n)
}

func partials(t *testing.T, dir string, n int) (list []string) {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(dir, ".rcopy-*.part"))
	if err != nil || len(list) != n {
		t.Errorf("expected %d partial files, found %v, %v", n, list, err)
	}
	return list
}

// begins sends the first part of a copy of a source to a server, whose files are
// in dir, and waits until the server has it.
func begins(t *testing.T, conn io.Writer, dir string, key uint64, data []byte, part int) {
	t.Helper()
	open := rcopyHeader{command: rcopyOpen, length: rcopyHeaderLen + 8, data: modeRegular | 0o640, id: key}
	write := rcopyHeader{command: rcopyWrite, length: rcopyWriteLen}
	said := append(open.append(nil), "name\x00\x00\x00\x00"...)
	said = binary.LittleEndian.AppendUint64(write.append(said), uint64(len(data)))
	if _, err := conn.Write(append(said, data[:part]...)); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		list, _ := filepath.Glob(filepath.Join(dir, ".rcopy-*.part"))
		if len(list) == 1 {
			if info, err := os.Stat(list[0]); err == nil && info.Size() == int64(part) {
				return
			}
		}
		if time.Now().After(end) {
			t.Fatalf("the server has not got %d bytes: %v", part, list)
		}
	}
}

func TestRcopyKeepsTheOldFileWhenKilled(t *testing.T) {
	dir, file := oldFile(t)
	at, s := rcopyServes(t, dir)
	begins(t, rcopyCalls(t, at), dir, 0, noise(1, 1<<20), 300_000)
	stillOld(t, file, 1)
	if err := s.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-s.ended
	stillOld(t, file, 1)
}

func TestRcopyKeepsTheOldFileWhenTheClientIsCut(t *testing.T) {
	dir, file := oldFile(t)
	at, s := rcopyServes(t, dir, "--once")
	conn := rcopyCalls(t, at).(*rdmanet.Conn)
	begins(t, conn, dir, 0, noise(1, 1<<20), 300_000)
	conn.SetLinger(0)
	conn.Close()
	s.fails(exitPeer, "SOCKET_CUT", "incomplete, it has 300000 bytes")
	stillOld(t, file, 0)
}

// A limit of the file size is met as a full disk is.
func TestRcopyKeepsTheOldFileWithoutSpace(t *testing.T) {
	dir, file := oldFile(t)
	at := serverAddress(t)
	s := prepare(t, "rcopy", "-a", at, "--dir", dir, "--once")
	s.cmd = exec.Command("sh", append([]string{"-c", `ulimit -f 1000; exec "$0" "$@"`, builtCommand}, s.cmd.Args[1:]...)...)
	s.cmd.Stdout, s.cmd.Stderr = &s.stdout, &s.stderr
	s.start()
	s.prints("waiting")
	rcopies(t, written(t, noise(1, 5<<20)), at+":name").fails(exitFailed, "the server cannot write the file", "file too large")
	s.fails(exitFailed, "incomplete", "file too large")
	stillOld(t, file, 0)
}

func TestRcopyKeepsTheOldFileOnAFullDisk(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("SKIPPED: mounting a small file system takes root")
	}
	dir, at := t.TempDir(), serverAddress(t)
	s := prepare(t, "rcopy", "-a", at, "--dir", dir, "--once")
	s.cmd = exec.Command("unshare", append([]string{"-m", "sh", "-c",
		`mount -t tmpfs -o size=1m none "$D" && printf 'the old one' >"$D/name" && "$0" "$@"; code=$?; cat "$D/name"; ls -A "$D"; exit $code`, builtCommand}, s.cmd.Args[1:]...)...)
	s.cmd.Env = append(os.Environ(), "D="+dir)
	s.cmd.Stdout, s.cmd.Stderr = &s.stdout, &s.stderr
	s.start()
	s.prints("waiting")
	rcopies(t, written(t, noise(1, 5<<20)), at+":name").fails(exitFailed, "the server cannot write the file", "no space left")
	s.fails(exitFailed, "incomplete", "no space left")
	if !strings.HasSuffix(s.stdout.String(), "the old onename\n") {
		t.Errorf("expected the old file alone, found %q", &s.stdout)
	}
}

// A copy that was cut off goes on where it was last synchronised.
func TestRcopyGoesOn(t *testing.T) {
	dir, file := oldFile(t)
	data := noise(7, rcopySync+3<<20)
	source := written(t, data)
	f, err := os.Open(source)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	key, err := rcopyKey(f)
	if err != nil {
		t.Fatal(err)
	}
	at, s := rcopyServes(t, dir)
	begins(t, rcopyCalls(t, at), dir, key, data, rcopySync+1<<20)
	if err := s.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-s.ended
	stillOld(t, file, 1)

	at, s = rcopyServes(t, dir)
	other := written(t, noise(8, 1000)) // is not taken for the same
	if out := rcopies(t, other, at+":name").succeeds(); strings.Contains(out, "went on") {
		t.Errorf("another file: %q", out)
	}
	if out := rcopies(t, source, at+":name").succeeds(); !strings.HasPrefix(out, fmt.Sprintf("went on after %d bytes", rcopySync)) || !strings.Contains(out, fmt.Sprintf("\n%d bytes in ", 3<<20)) {
		t.Errorf("expected it to go on, found %q", out)
	}
	found, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "the file", data, found)
	partials(t, dir, 0)
	s.prints("wrote " + file)
}

// The last step of a copy that was cut off counts when there is something behind it:
// without that it may not have been synchronised.
func TestRcopyGoesOnAtWhatIsOnStorage(t *testing.T) {
	in, err := openInbox(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer in.close()
	for _, c := range []struct{ has, from int64 }{
		{0, 0}, {rcopySync - 1, 0}, {rcopySync, 0}, {rcopySync + 1, rcopySync},
		{2 * rcopySync, rcopySync}, {2*rcopySync + 1, 2 * rcopySync},
	} {
		d, err := in.open("x", 0o600, 5)
		if err != nil {
			t.Fatal(err)
		}
		err = errors.Join(d.file.Truncate(c.has), d.file.Close())
		d.release()
		if err != nil {
			t.Fatal(err)
		}
		if d, err = in.open("x", 0o600, 5); err != nil {
			t.Fatal(err)
		}
		if d.from != c.from {
			t.Errorf("a partial file of %d bytes: goes on at %d, expected %d", c.has, d.from, c.from)
		}
		if err := d.abandon(); err != nil {
			t.Fatal(err)
		}
	}
}

// Two copies of one source at a time do not write to one partial file.
func TestRcopySharesNoPartialFile(t *testing.T) {
	in, err := openInbox(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer in.close()
	a, err := in.open("x", 0o444, 5)
	if err != nil {
		t.Fatal(err)
	}
	b, err := in.open("x", 0o600, 5)
	if err != nil {
		t.Fatal(err)
	}
	if !a.keep || b.keep || a.part == b.part {
		t.Errorf("partial files %s and %s", a.part, b.part)
	}
	for _, d := range []*delivery{a, b} {
		if err := d.take(strings.NewReader("hello"), 5); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.finish(); err != nil {
		t.Fatal(err)
	}
	if err := a.finish(); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(filepath.Join(in.dir, "x"))
	if err != nil || info.Mode().Perm() != 0o444 || info.Size() != 5 || len(in.busy) != 0 {
		t.Errorf("found %v, %v, %v", info, err, in.busy)
	}
	partials(t, in.dir, 0)
}

func TestRcopyRefusesControlCharacters(t *testing.T) {
	dir := t.TempDir()
	source := written(t, []byte("hello"))
	for _, name := range []string{"a\nb", "\x1b[2Jx", "x\x7f", "x\u0085"} {
		start(t, "rcopy", source, "127.0.0.1:"+name).fails(exitUsage, "FILE_NAME")
		at, s := rcopyServes(t, dir, "--once")
		h := rcopyHeader{command: rcopyOpen, length: rcopyHeaderLen + 8, data: modeRegular | 0o640}
		conn := rcopyCalls(t, at)
		if _, err := conn.Write(append(h.append(nil), (name + "\x00\x00\x00\x00\x00\x00")[:8]...)); err != nil {
			t.Fatal(err)
		}
		s.fails(exitFailed, "FILE_NAME", fmt.Sprintf("%q", name))
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("found %v, %v", left, err)
	}
}
