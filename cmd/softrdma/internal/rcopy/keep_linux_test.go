package rcopy

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"softrdma/cmd/softrdma/internal/cli"
	"softrdma/cmd/softrdma/internal/clitest"
	"softrdma/rdmanet"
)

// oldFile creates a directory with a file that copies will replace.
func oldFile(t *testing.T) (dir, file string) {
	t.Helper()
	dir = t.TempDir()
	file = filepath.Join(dir, "name")
	if err := os.WriteFile(file, []byte("the old one"), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir, file
}

// checkOldFile checks that the file is unchanged and that n partial files are beside
// it.
func checkOldFile(t *testing.T, file string, n int) {
	t.Helper()
	if b, err := os.ReadFile(file); string(b) != "the old one" {
		t.Errorf("the old file: %d bytes, %v", len(b), err)
	}
	partialFiles(t, filepath.Dir(file), n)
}

func partialFiles(t *testing.T, dir string, n int) (list []string) {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(dir, ".rcopy-*.part"))
	if err != nil || len(list) != n {
		t.Errorf("expected %d partial files, found %v, %v", n, list, err)
	}
	return list
}

// sendPart sends the first part of a file to a server that writes to dir, and waits
// until the server has it.
func sendPart(t *testing.T, conn io.Writer, dir string, key uint64, data []byte, part int) {
	t.Helper()
	open := header{command: opOpen, length: headerLen + 8, data: modeRegular | 0o640, id: key}
	write := header{command: opWrite, length: writeLen}
	said := append(open.append(nil), "name\x00\x00\x00\x00"...)
	said = binary.LittleEndian.AppendUint64(write.append(said), uint64(len(data)))
	if _, err := conn.Write(append(said, data[:part]...)); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(clitest.Timeout); ; time.Sleep(5 * time.Millisecond) {
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
	at, s := startServer(t, dir)
	sendPart(t, dialServer(t, at), dir, 0, clitest.RandomData(1, 1<<20), 300_000)
	checkOldFile(t, file, 1)
	if err := s.Cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-s.Ended
	checkOldFile(t, file, 1)
}

func TestRcopyKeepsTheOldFileWhenTheConnectionIsCut(t *testing.T) {
	dir, file := oldFile(t)
	at, s := startServer(t, dir, "--once")
	conn := dialServer(t, at).(*rdmanet.Conn)
	sendPart(t, conn, dir, 0, clitest.RandomData(1, 1<<20), 300_000)
	conn.SetLinger(0)
	conn.Close()
	s.Fails(cli.ExitPeer, "SOCKET_CUT", "incomplete, it has 300000 bytes")
	checkOldFile(t, file, 0)
}

// A file size limit has the same effect as a full disk.
func TestRcopyKeepsTheOldFileWithoutSpace(t *testing.T) {
	dir, file := oldFile(t)
	at := clitest.ServerAddress(t)
	s := clitest.Prepare(t, "rcopy", "-a", at, "--dir", dir, "--once")
	s.Cmd = exec.Command("sh", append([]string{"-c", `ulimit -f 1000; exec "$0" "$@"`, clitest.Command(t)}, s.Cmd.Args[1:]...)...)
	s.Cmd.Stdout, s.Cmd.Stderr = &s.Stdout, &s.Stderr
	s.Start()
	s.Prints("waiting")
	startClient(t, writeSource(t, clitest.RandomData(1, 5<<20)), at+":name").Fails(cli.ExitFailed, "the server cannot write the file", "file too large")
	s.Fails(cli.ExitFailed, "incomplete", "file too large")
	checkOldFile(t, file, 0)
}

func TestRcopyKeepsTheOldFileOnAFullDisk(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("SKIPPED: mounting a small file system takes root")
	}
	dir, at := t.TempDir(), clitest.ServerAddress(t)
	s := clitest.Prepare(t, "rcopy", "-a", at, "--dir", dir, "--once")
	s.Cmd = exec.Command("unshare", append([]string{"-m", "sh", "-c",
		`mount -t tmpfs -o size=1m none "$D" && printf 'the old one' >"$D/name" && "$0" "$@"; code=$?; cat "$D/name"; ls -A "$D"; exit $code`, clitest.Command(t)}, s.Cmd.Args[1:]...)...)
	s.Cmd.Env = append(os.Environ(), "D="+dir)
	s.Cmd.Stdout, s.Cmd.Stderr = &s.Stdout, &s.Stderr
	s.Start()
	s.Prints("waiting")
	startClient(t, writeSource(t, clitest.RandomData(1, 5<<20)), at+":name").Fails(cli.ExitFailed, "the server cannot write the file", "no space left")
	s.Fails(cli.ExitFailed, "incomplete", "no space left")
	if !strings.HasSuffix(s.Stdout.String(), "the old onename\n") {
		t.Errorf("expected the old file alone, found %q", &s.Stdout)
	}
}

// An interrupted copy continues where it was last synchronised.
func TestRcopyContinuesInterruptedCopy(t *testing.T) {
	dir, file := oldFile(t)
	data := clitest.RandomData(7, syncSize+3<<20)
	source := writeSource(t, data)
	f, err := os.Open(source)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	key := keyOf(t, f)
	at, s := startServer(t, dir)
	sendPart(t, dialServer(t, at), dir, key, data, syncSize+1<<20)
	if err := s.Cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-s.Ended
	checkOldFile(t, file, 1)

	at, s = startServer(t, dir)
	other := writeSource(t, clitest.RandomData(8, 1000)) // must not be taken for the same source
	if out := startClient(t, other, at+":name").Succeeds(); strings.Contains(out, "continued") {
		t.Errorf("another file: %q", out)
	}
	if out := startClient(t, source, at+":name").Succeeds(); !strings.HasPrefix(out, fmt.Sprintf("continued after %d bytes", syncSize)) || !strings.Contains(out, fmt.Sprintf("\n%d bytes in ", 3<<20)) {
		t.Errorf("expected it to continue, found %q", out)
	}
	found, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	clitest.SameData(t, "the file", data, found)
	partialFiles(t, dir, 0)
	s.Prints("wrote " + file)
}

// leavePart sends a part of the source to a server, which is then killed.
func leavePart(t *testing.T, dir, source string, data []byte, part int) {
	t.Helper()
	f, err := os.Open(source)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	at, s := startServer(t, dir)
	sendPart(t, dialServer(t, at), dir, keyOf(t, f), data, part)
	if err := s.Cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-s.Ended
}

// A part that has changed since the earlier copy is found, and the whole file is copied.
func TestRcopyCopiesWholeFileIfTheContinuedPartDiffers(t *testing.T) {
	dir, file := oldFile(t)
	data := clitest.RandomData(7, syncSize+3<<20)
	source := writeSource(t, data)
	leavePart(t, dir, source, data, syncSize+1<<20)
	for _, part := range partialFiles(t, dir, 1) {
		p, err := os.OpenFile(part, os.O_WRONLY, 0)
		if err == nil {
			_, err = p.WriteAt([]byte{data[1000] ^ 1}, 1000)
			err = errors.Join(err, p.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	at, s := startServer(t, dir)
	p := startClient(t, source, at+":name")
	<-p.Ended
	if out := p.Stdout.String(); p.Cmd.ProcessState.ExitCode() != cli.ExitOK || strings.Contains(out, "continued") || !strings.Contains(p.Stderr.String(), "copying the whole file") || !strings.Contains(p.Stderr.String(), "differs from the source") {
		t.Errorf("found %q and %q", out, &p.Stderr)
	}
	found, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	clitest.SameData(t, "the file", data, found)
	partialFiles(t, dir, 0)
	s.Prints("wrote " + file)
}

// A part with other permissions than the source has by now is not continued: the file would keep them, and others could
// read it.
func TestRcopyDoesNotKeepEarlierPermissions(t *testing.T) {
	dir, file := oldFile(t)
	data := clitest.RandomData(7, syncSize+3<<20)
	source := writeSource(t, data)
	leavePart(t, dir, source, data, syncSize+1<<20)
	if err := os.Chmod(source, 0o600); err != nil {
		t.Fatal(err)
	}
	at, _ := startServer(t, dir)
	startClient(t, source, at+":name").Succeeds()
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("expected the source's mode, found %v, %v", info.Mode(), err)
	}
}

// A server that has a part and does not know how to compare it, as before softrdma compared, gets the whole file.
func TestRcopyCopiesWholeFileToServerThatCannotCompare(t *testing.T) {
	at := clitest.ServerAddress(t)
	l, err := rdmanet.Listen("rdma", at+":7427")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	data := clitest.RandomData(7, syncSize+1<<20)
	p := startClient(t, writeSource(t, data), at+":seventh")
	serve := func(had uint64) (got []byte, err error) {
		conn, err := l.Accept()
		if err != nil {
			return nil, err
		}
		defer conn.Close()
		for {
			b := make([]byte, headerLen)
			if _, err := io.ReadFull(conn, b); err != nil {
				return nil, err
			}
			h, err := parseHeader(b)
			if err != nil {
				return nil, err
			}
			answer := header{command: h.command | replyFlag, length: headerLen, id: h.id}
			if _, err := io.CopyN(io.Discard, conn, int64(h.length)-headerLen); err != nil {
				return nil, err
			}
			switch h.command {
			case opOpen:
				answer.id += had
				if (h.id == 0) != (had == 0) {
					return nil, fmt.Errorf("opened with the key %#x", h.id)
				}
			case opWrite:
				got = make([]byte, len(data))
				if _, err := io.ReadFull(conn, got); err != nil {
					return nil, err
				}
			case opCheck:
				answer.data = errnoOf(syscall.EINVAL)
			}
			_, err = conn.Write(answer.append(nil))
			if answer.data != 0 || h.command == opClose || err != nil {
				return got, err
			}
		}
	}
	if _, err := serve(syncSize); err != nil {
		t.Fatal(err)
	}
	got, err := serve(0)
	if err != nil {
		t.Fatal(err)
	}
	clitest.SameData(t, "the file", data, got)
	code := p.ExitCode()
	if said := p.Stderr.String(); code != cli.ExitOK || !strings.Contains(said, "copying the whole file") || !strings.Contains(said, "too old") {
		t.Errorf("it said %q", said)
	}
}

// The last full step of a partial file counts only if more data follows it. Otherwise
// it may not have been synchronised.
func TestRcopyContinuesAfterSynchronisedData(t *testing.T) {
	in, err := openDirectory(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer in.close()
	for _, c := range []struct{ has, from int64 }{
		{0, 0}, {syncSize - 1, 0}, {syncSize, 0}, {syncSize + 1, syncSize},
		{2 * syncSize, syncSize}, {2*syncSize + 1, 2 * syncSize},
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
			t.Errorf("a partial file of %d bytes: continues at %d, expected %d", c.has, d.from, c.from)
		}
		if err := d.abandon(); err != nil {
			t.Fatal(err)
		}
	}
}

// Two copies of one source at the same time do not write to one partial file.
func TestRcopySharesNoPartialFile(t *testing.T) {
	in, err := openDirectory(t.TempDir())
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
	if !a.keep || b.keep || a.partial == b.partial {
		t.Errorf("partial files %s and %s", a.partial, b.partial)
	}
	for _, d := range []*upload{a, b} {
		if err := d.receive(strings.NewReader("hello"), 5); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.finish(); err != nil {
		t.Fatal(err)
	}
	if err := a.finish(); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(filepath.Join(in.path, "x"))
	if err != nil || info.Mode().Perm() != 0o444 || info.Size() != 5 || len(in.busy) != 0 {
		t.Errorf("found %v, %v, %v", info, err, in.busy)
	}
	partialFiles(t, in.path, 0)
}

func TestRcopyRefusesControlCharacters(t *testing.T) {
	dir := t.TempDir()
	source := writeSource(t, []byte("hello"))
	for _, name := range []string{"a\nb", "\x1b[2Jx", "x\x7f", "x\u0085"} {
		clitest.Start(t, "rcopy", source, "127.0.0.1:"+name).Fails(cli.ExitUsage, "FILE_NAME")
		at, s := startServer(t, dir, "--once")
		h := header{command: opOpen, length: headerLen + 8, data: modeRegular | 0o640}
		conn := dialServer(t, at)
		if _, err := conn.Write(append(h.append(nil), (name + "\x00\x00\x00\x00\x00\x00")[:8]...)); err != nil {
			t.Fatal(err)
		}
		s.Fails(cli.ExitFailed, "FILE_NAME", fmt.Sprintf("%q", name))
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("found %v, %v", left, err)
	}
}

func keyOf(t *testing.T, f *os.File) uint64 {
	t.Helper()
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	key, err := sourceKey(f, info)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// A source that changes between two connections is copied as it is then, also if the server has a
// part of that version that is longer than the whole one before.
func TestClientSendsTheVersionOfTheSourceThatItNames(t *testing.T) {
	const first, second, had = syncSize + 1<<20, syncSize + 3<<20, syncSize + 3<<20 - 1000
	f, err := openSource(writeSource(t, nil))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	l, err := rdmanet.Listen("rdma", clitest.ServerAddress(t)+":0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	// serve answers that the server has a part, and returns how long the client says that the rest is.
	serve := func(had uint64) (rest uint64, err error) {
		conn, err := l.Accept()
		if err != nil {
			return 0, err
		}
		defer conn.Close()
		b := make([]byte, headerLen+8+writeLen)
		if _, err := io.ReadFull(conn, b[:headerLen+8]); err != nil {
			return 0, err
		}
		h, err := parseHeader(b)
		if err != nil {
			return 0, err
		}
		answer := header{command: opOpen | replyFlag, length: headerLen, id: h.id + had}
		if _, err := conn.Write(answer.append(nil)); err != nil {
			return 0, err
		}
		for at := uint64(0); at < had; at += checkSize {
			if _, err := io.CopyN(io.Discard, conn, checkLen); err != nil {
				return 0, err
			}
			answer = header{command: opCheck | replyFlag, length: headerLen}
			if _, err := conn.Write(answer.append(nil)); err != nil {
				return 0, err
			}
		}
		_, err = io.ReadFull(conn, b[:writeLen])
		return binary.LittleEndian.Uint64(b[headerLen:]), err
	}
	for _, c := range []struct{ size, had int64 }{{first, 0}, {second, had}} {
		if err := os.Truncate(f.Name(), c.size); err != nil {
			t.Fatal(err)
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			conn, err := rdmanet.Dial("rdma", l.Addr().String())
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			copier := &client{stream: newStream(conn.(*rdmanet.Conn), clitest.Timeout)}
			if s, err := copier.send(f, "name", false); err == nil || s.from != c.had {
				t.Errorf("began at %d, expected %d; %v", s.from, c.had, err)
			}
		}()
		if rest, err := serve(uint64(c.had)); err != nil || int64(rest) != c.size-c.had {
			t.Errorf("sends %d bytes, expected %d: %v", rest, c.size-c.had, err)
		}
		<-done
	}
}

// What was compared is not compared again when the connection is lost later, unless it differed: a long file would be read
// from its beginning each time.
func TestClientComparesAPartOnce(t *testing.T) {
	const size = 2 * syncSize
	f, err := openSource(writeSource(t, make([]byte, size)))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	l, err := rdmanet.Listen("rdma", clitest.ServerAddress(t)+":0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var done compared
	for i, c := range []struct{ had, answer, from int }{{syncSize, 0, 0}, {syncSize + 5<<20, 0, syncSize}, {syncSize, 0, syncSize}, {size, 74, syncSize}, {size, 0, 0}} {
		checks := make(chan []int, 1)
		go func() {
			var list []int
			defer func() { checks <- list }()
			conn, err := l.Accept()
			if err != nil {
				return
			}
			defer conn.Close()
			for {
				b := make([]byte, headerLen)
				if _, err := io.ReadFull(conn, b); err != nil {
					return
				}
				h, err := parseHeader(b)
				if err != nil || h.command == opWrite {
					return // the connection is lost
				}
				rest := make([]byte, h.length-headerLen)
				if _, err := io.ReadFull(conn, rest); err != nil {
					return
				}
				answer := header{command: h.command | replyFlag, length: headerLen, id: h.id + uint64(c.had)}
				if h.command == opCheck {
					list = append(list, int(binary.LittleEndian.Uint64(rest)))
					answer.data = uint32(c.answer)
				}
				if _, err := conn.Write(answer.append(nil)); err != nil {
					return
				}
			}
		}()
		conn, err := rdmanet.Dial("rdma", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		copier := &client{stream: newStream(conn.(*rdmanet.Conn), clitest.Timeout), compared: done}
		_, err = copier.send(f, "name", false)
		if done = copier.compared; (c.answer != 0) != errors.Is(err, errDiffers) {
			t.Errorf("%d: %v", i, err)
		}
		conn.Close()
		if list := <-checks; len(list) == 0 && c.from < c.had || len(list) > 0 && list[0] != c.from {
			t.Errorf("%d: compared from %v on, expected %d", i, list, c.from)
		}
	}
}

// After a step could not be synchronised, a copy does not continue behind it: a second attempt to
// synchronise the file may succeed without the data.
func TestRcopyContinuesBeforeAStepThatFailed(t *testing.T) {
	in, err := openDirectory(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer in.close()
	u, err := in.open("x", 0o600, 7)
	if err != nil {
		t.Fatal(err)
	}
	if err := u.file.Truncate(2 * syncSize); err != nil {
		t.Fatal(err)
	}
	u.size = 2 * syncSize
	file := u.file
	r, w, err := os.Pipe() // which cannot be synchronised
	if err != nil {
		t.Fatal(err)
	}
	u.file = w
	if err := u.sync(); err == nil {
		t.Fatal("a pipe was synchronised")
	}
	u.file = file
	if err := errors.Join(u.abandon(), r.Close(), w.Close()); err != nil {
		t.Fatal(err)
	}
	if u, err = in.open("x", 0o600, 7); err != nil {
		t.Fatal(err)
	}
	if u.from != syncSize {
		t.Errorf("continues at %d, expected %d", u.from, syncSize)
	}
	if err := u.abandon(); err != nil {
		t.Fatal(err)
	}
}
