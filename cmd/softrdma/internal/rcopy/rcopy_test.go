package rcopy

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"softrdma/cmd/softrdma/internal/cli"
	"softrdma/cmd/softrdma/internal/clitest"
	"softrdma/rdmanet"
	"softrdma/verbs"
)

// startServer starts a server that writes below a directory.
func startServer(t *testing.T, dir string, flags ...string) (at string, s *clitest.Process) {
	t.Helper()
	at = clitest.ServerAddress(t)
	s = clitest.Start(t, append([]string{"rcopy", "-a", at, "--dir", dir}, flags...)...)
	s.Prints("waiting for a client on " + at + " port 7427")
	return at, s
}

// startClient starts a client.
func startClient(t *testing.T, source, to string, flags ...string) *clitest.Process {
	t.Helper()
	return clitest.Start(t, append([]string{"rcopy", source, to, "-I", clitest.LoopbackDevice(t)}, flags...)...)
}

// writeSource creates a file.
func writeSource(t *testing.T, data []byte) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "source.bin")
	if err := os.WriteFile(name, data, 0o640); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestRcopyCopiesFiles(t *testing.T) {
	dir := t.TempDir()
	at, s := startServer(t, dir)
	for i, n := range []int{0, 1, 65536, 10<<20 + 7} {
		data := clitest.RandomData(i, n)
		name := fmt.Sprintf("file%d", i%2) // the third and the fourth replace the others
		out := startClient(t, writeSource(t, data), at+":"+name).Succeeds()
		if !strings.Contains(out, fmt.Sprintf("\n%d bytes in ", n)) || !strings.HasSuffix(out, " Gb/sec\n") {
			t.Errorf("expected %d bytes, found %q", n, out)
		}
		found, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		clitest.SameData(t, name, data, found)
		s.Prints(fmt.Sprintf("wrote %s, %d bytes", filepath.Join(s.Cmd.Args[5], name), n))
	}
	if info, err := os.Stat(filepath.Join(dir, "file0")); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o640 {
		t.Errorf("expected the source's mode, found %v, %v", info.Mode(), err)
	}
}

func TestRcopyNamesInAndOutOfDirectory(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	data := clitest.RandomData(1, 1000)
	source := writeSource(t, data)
	at, _ := startServer(t, dir)
	if err := os.Mkdir(filepath.Join(dir, "sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "sub/b", filepath.ToSlash(filepath.Join(dir, "c"))} {
		startClient(t, source, at+":"+name).Succeeds()
	}
	for _, name := range []string{"a", "sub/b", "c"} {
		found, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		clitest.SameData(t, name, data, found)
	}
	names := map[string]string{
		"../x":                                "outside of the server's --dir",
		filepath.ToSlash(outside) + "/x":      "outside of the server's --dir",
		"sub":                                 "is a directory",
		"nosuch/x":                            "no such file or directory",
		strings.Repeat("long", 1000):          "file name too long",
		"sub/../../" + filepath.Base(outside): "outside of the server's --dir",
	}
	if os.Symlink(outside, filepath.Join(dir, "link")) == nil {
		names["link/x"] = "outside of the server's --dir"
	}
	for name, words := range names {
		if runtime.GOOS == "windows" && words != "outside of the server's --dir" {
			continue // Windows has other errors
		}
		startClient(t, source, at+":"+name).Fails(cli.ExitFailed, "the server cannot open", words)
	}
	if runtime.GOOS != "windows" {
		startClient(t, source, at).Fails(cli.ExitFailed, "outside of the server's --dir", "for example SERVER:"+filepath.Base(source))
	}
	if left, _ := os.ReadDir(outside); len(left) > 0 {
		t.Errorf("the server wrote outside of its directory: %v", left)
	}
}

func TestRcopyWritesAnywhereWithRootDir(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("SKIPPED: windows has no directory of everything")
	}
	data := clitest.RandomData(3, 5000)
	to := filepath.Join(t.TempDir(), "there")
	at, s := startServer(t, "/", "--once")
	startClient(t, writeSource(t, data), at+":"+to).Succeeds()
	s.Succeeds()
	found, err := os.ReadFile(to)
	if err != nil {
		t.Fatal(err)
	}
	clitest.SameData(t, to, data, found)
}

func TestRcopyServesClientsConcurrently(t *testing.T) {
	dir := t.TempDir()
	at, _ := startServer(t, dir)
	var clients []*clitest.Process
	for i := range 4 {
		clients = append(clients, startClient(t, writeSource(t, clitest.RandomData(i, 3<<20)), fmt.Sprintf("%s:%d", at, i)))
	}
	for i, c := range clients {
		c.Succeeds()
		found, err := os.ReadFile(filepath.Join(dir, fmt.Sprint(i)))
		if err != nil {
			t.Fatal(err)
		}
		clitest.SameData(t, fmt.Sprint(i), clitest.RandomData(i, 3<<20), found)
	}
}

func TestRcopyWithoutServer(t *testing.T) {
	at := clitest.ServerAddress(t)
	dev, err := verbs.Open(at, verbs.Config{})
	if err != nil {
		t.Fatal(err)
	}
	source := writeSource(t, nil)
	startClient(t, source, at, "--timeout", "1h").Fails(cli.ExitPeer, "nothing listens at "+at+":7427", `"softrdma rcopy"`)
	if err := dev.Close(); err != nil {
		t.Fatal(err)
	}
	startClient(t, source, at+":x", "--timeout", "300ms").Fails(cli.ExitPeer, "no answer from "+at+":7427 within 300ms")
	clitest.Start(t, "rcopy", source, "host.invalid").Fails(cli.ExitPeer, "host.invalid")
}

// dialServer connects to a server without the rcopy client.
func dialServer(t *testing.T, at string) net.Conn {
	t.Helper()
	conn, err := rdmanet.Dial("rdma", at+":7427")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// The server's answers and output, byte by byte, for valid and invalid clients.
func TestRcopyServerAnswersByteByByte(t *testing.T) {
	const (
		open   = "\x00\x01\x18\x00\xa4\x81\x00\x00ABCDEFGHname\x00\x00\x00\x00"
		opened = "\x00\x81\x10\x00\x00\x00\x00\x00ABCDEFGH"
		write5 = "\x00\x03\x18\x00\x00\x00\x00\x00IJKLMNOP\x05\x00\x00\x00\x00\x00\x00\x00"
		wrote  = "\x00\x83\x10\x00\x00\x00\x00\x00IJKLMNOP"
		end    = "\x00\x02\x10\x00\x00\x00\x00\x00QRSTUVWX"
		ended  = "\x00\x82\x10\x00\x00\x00\x00\x00QRSTUVWX"
	)
	for _, c := range []struct {
		name, says, hears string
		code              int
		words             string
	}{
		{"in order", open + write5 + "hello" + end, opened + wrote + ended, cli.ExitOK, ""},
		{"two files", open + end + open + write5 + "hello" + end, opened + ended + opened + wrote + ended, cli.ExitOK, ""},
		{"says nothing", "", "", cli.ExitOK, ""},
		{"half a header", open[:10], "", cli.ExitPeer, "in the middle"},
		{"half a name", open[:20], "", cli.ExitPeer, "in the middle"},
		{"version", "\x07" + open[1:], "", cli.ExitPeer, "found version 7"},
		{"no rcopy", "GET / HTTP/1.1\r\n\r\n", "", cli.ExitPeer, "found version 71"},
		{"short length", "\x00\x01\x0f\x00" + open[4:], "", cli.ExitPeer, "found version 0 and 15 bytes"},
		{"unknown command", "\x00\x09" + open[2:16], "\x00\x89\x10\x00\x16\x00\x00\x00ABCDEFGH", cli.ExitFailed, "found 0x09"},
		{"open twice", open + open, opened + "\x00\x81\x10\x00\x10\x00\x00\x00ABCDEFGH", cli.ExitFailed, "another file"},
		{"no name", strings.Replace(open, "name", "\x00\x00\x00\x00", 1), "\x00\x81\x10\x00\x16\x00\x00\x00ABCDEFGH", cli.ExitFailed, "empty name"},
		{"write before open", write5, "\x00\x83\x10\x00\x16\x00\x00\x00IJKLMNOP", cli.ExitFailed, "no file is open"},
		{"length of length", open + "\x00\x03\x10" + write5[3:16], opened + "\x00\x83\x10\x00\x16\x00\x00\x00IJKLMNOP", cli.ExitFailed, "length"},
		{"check before open", "\x00\x04\x40" + write5[3:24] + "\x05" + strings.Repeat("\x00", 39), "\x00\x84\x10\x00\x16\x00\x00\x00IJKLMNOP", cli.ExitFailed, "no file is open"},
		{"short check", open + "\x00\x04\x10" + write5[3:16], opened + "\x00\x84\x10\x00\x16\x00\x00\x00IJKLMNOP", cli.ExitFailed, "checksum"},
		{"check of what is not there", open + write5 + "hello\x00\x04\x40" + write5[3:16] + strings.Repeat("\xff", 48), opened + wrote + "\x00\x84\x10\x00\x16\x00\x00\x00IJKLMNOP", cli.ExitFailed, "there are 5"},
		{"check of other bytes", open + write5 + "hello\x00\x04\x40" + write5[3:16] + strings.Repeat("\x00", 48), opened + wrote + "\x00\x84\x10\x00\x4a\x00\x00\x00IJKLMNOP", cli.ExitFailed, "differs"},
		{"too long", open + write5[:16] + "\xff\xff\xff\xff\xff\xff\xff\xff", opened + "\x00\x83\x10\x00\x1b\x00\x00\x00IJKLMNOP", cli.ExitFailed, "18446744073709551615"},
		{"stops in the data", open + write5 + "hel", opened, cli.ExitPeer, "incomplete, it has 3 bytes"},
		{"stops before the end", open + write5 + "hello", opened + wrote, cli.ExitPeer, "incomplete, it has 5 bytes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			at, s := startServer(t, dir, "--once")
			conn := dialServer(t, at)
			io.WriteString(conn, c.says)
			conn.(*rdmanet.Conn).CloseWrite()
			heard, err := io.ReadAll(conn)
			if n := len(c.hears); err != nil || len(heard) < n || string(heard[:n]) != c.hears {
				t.Errorf("expected the answers %q, found %q, %v", c.hears, heard, err)
			}
			if c.code != cli.ExitOK {
				s.Fails(c.code, c.words)
				return
			}
			s.Succeeds()
			if c.says == "" {
				return
			}
			if found, err := os.ReadFile(filepath.Join(dir, "name")); string(found) != "hello" {
				t.Errorf("expected a file of %q, found %q, %v", "hello", found, err)
			}
		})
	}
}

// The client's messages and output, byte by byte, for valid and invalid servers.
func TestRcopyClientMessagesByteByByte(t *testing.T) {
	const (
		open   = "\x00\x01\x18\x00\xa0\x81\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00seventh\x00"
		write5 = "\x00\x03\x18\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x05\x00\x00\x00\x00\x00\x00\x00hello"
		end    = "\x00\x02\x10\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
		rest   = "\x10\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
	)
	for _, c := range []struct {
		name    string
		hears   []string
		answers []string
		code    int
		words   string
	}{
		{"in order", []string{open, write5, end}, []string{"\x00\x81" + rest, "\x00\x83" + rest, "\x00\x82" + rest}, cli.ExitOK, ""},
		{"refuses to open", []string{open}, []string{"\x00\x81\x10\x00\x0d" + rest[3:]}, cli.ExitFailed, "cannot open seventh: permission denied"},
		{"refuses to write", []string{open, write5}, []string{"\x00\x81" + rest, "\x00\x83\x10\x00\x1c" + rest[3:]}, cli.ExitFailed, "cannot write the file: no space left on device (errno 28)"},
		{"unknown errno", []string{open}, []string{"\x00\x81\x10\x00\xff\xff\xff\xff" + rest[6:]}, cli.ExitFailed, "errno -1 of Linux"},
		{"answers another", []string{open}, []string{"\x00\x82" + rest}, cli.ExitPeer, "expected answer 0x81 of 16 bytes, found 0x82"},
		{"goes away", []string{open}, []string{""}, cli.ExitPeer, "instead of answering"},
		{"goes away later", []string{open}, []string{"\x00\x81\x10"}, cli.ExitPeer, "in the middle"},
		{"no rcopy", []string{open}, []string{"220 mail.example.org ESMTP\r\n"}, cli.ExitPeer, "found version 50"},
	} {
		t.Run(c.name, func(t *testing.T) {
			at := clitest.ServerAddress(t)
			l, err := rdmanet.Listen("rdma", at+":7427")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			p := startClient(t, writeSource(t, []byte("hello")), at+":seventh")
			conn, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			for i, want := range c.hears {
				if runtime.GOOS == "windows" {
					want = strings.Replace(want, "\xa0\x81", "\xb6\x81", 1) // Windows has no file modes
				}
				heard := make([]byte, len(want))
				if _, err := io.ReadFull(conn, heard); err != nil || !bytes.Equal(heard, []byte(want)) {
					t.Errorf("expected the answer %q, found %q, %v", want, heard, err)
				}
				io.WriteString(conn, c.answers[i])
			}
			if c.code != cli.ExitOK {
				conn.Close()
				p.Fails(c.code, c.words)
				return
			}
			p.Succeeds()
			conn.Close()
		})
	}
}

func TestRcopyServerSilentClient(t *testing.T) {
	at, s := startServer(t, t.TempDir(), "--once", "--timeout", "1s")
	dialServer(t, at)
	s.Fails(cli.ExitPeer, "does not answer", "timeout")
}

func TestRcopyInterruptedLeavesNothing(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("SKIPPED: processes cannot send signals on windows")
	}
	at, s := startServer(t, t.TempDir())
	conn := dialServer(t, at)
	s.Cmd.Process.Signal(os.Interrupt)
	s.Fails(cli.ExitInterrupted, "interrupted")
	if n, err := conn.Read(make([]byte, 1)); n != 0 || err == nil {
		t.Errorf("expected the connection to end, found %d bytes, %v", n, err)
	}
	clitest.CheckFree(t, at, clitest.FreePort(t))
}

func TestRcopyWrongArguments(t *testing.T) {
	source := writeSource(t, nil)
	for args, word := range map[string]string{
		"only-source":   "SERVER",
		"a b c":         "found 3 arguments",
		"-p 0":          "-p",
		"-I lo":         "-I",
		"a b --once":    "--once",
		"a b --dir x":   "--dir",
		"a b -a x":      "--address",
		"--timeout -1s": "positive",
		"--pcap x":      "-a ADDR",
		source + " :x":  "SERVER",
		source + " h:" + strings.Repeat("x", 5000): "4095",
	} {
		clitest.Start(t, append([]string{"rcopy"}, strings.Fields(args)...)...).Fails(cli.ExitUsage, word)
	}
	clitest.Start(t, "rcopy", filepath.Join(t.TempDir(), "nosuch"), "host").Fails(cli.ExitFailed, "nosuch")
	clitest.Start(t, "rcopy", t.TempDir(), "host").Fails(cli.ExitFailed, "expected a regular file, found a directory")
	clitest.Start(t, "rcopy", "--dir", filepath.Join(t.TempDir(), "nosuch")).Fails(cli.ExitFailed, "--dir", "nosuch")
}

func TestServerPath(t *testing.T) {
	for in, want := range map[string][2]string{
		"host": {"host"}, "host:": {"host"}, "host:/a:b": {"host", "/a:b"}, "::1": {"::1"}, "[::1]": {"::1"},
		"[::1]:x/y": {"::1", "x/y"}, "fe80::1%eth0": {"fe80::1%eth0"}, "1.2.3.4:x": {"1.2.3.4", "x"}, "[bad": {"[bad"},
	} {
		if server, path := serverPath(in); server != want[0] || path != want[1] {
			t.Errorf("%s: expected %q, found %q and %q", in, want, server, path)
		}
	}
}
