package main

import (
	"bytes"
	"crypto/sha256"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"softrdma/rdmanet"
	"softrdma/verbs"
)

// noise is n bytes that look like nothing else.
func noise(seed, n int) []byte {
	b := make([]byte, n)
	rand.NewChaCha8([32]byte{byte(seed)}).Read(b)
	return b
}

// same compares data by its SHA-256.
func same(t *testing.T, what string, want, found []byte) {
	t.Helper()
	if sha256.Sum256(want) != sha256.Sum256(found) {
		t.Errorf("%s: expected %d bytes with SHA-256 %x, found %d bytes with %x", what, len(want), sha256.Sum256(want), len(found), sha256.Sum256(found))
	}
}

// catWaits starts a cat that waits on an address, with an input.
func catWaits(t *testing.T, at string, in io.Reader, flags ...string) *process {
	t.Helper()
	p := prepare(t, append([]string{"cat", "-v", "-l", at + ":7000"}, flags...)...)
	p.cmd.Stdin = in
	p.start()
	p.tells("waiting for a client on " + at + " port 7000")
	return p
}

// catGoes starts a cat that goes there.
func catGoes(t *testing.T, at string, in io.Reader, flags ...string) *process {
	t.Helper()
	p := prepare(t, append([]string{"cat", "-I", loopbackDevice(t), at, "7000"}, flags...)...)
	p.cmd.Stdin = in
	p.start()
	return p
}

// ends wants code 0, and gives what came out.
func (p *process) ends() []byte {
	p.t.Helper()
	if got := p.code(); got != exitOK {
		p.t.Errorf("softrdma %v: code %d, expected 0: %s", p.cmd.Args[1:], got, &p.stderr)
	}
	return []byte(p.stdout.String())
}

// tells is prints of standard error.
func (p *process) tells(s string) {
	p.t.Helper()
	for end := time.Now().Add(patience); !strings.Contains(p.stderr.String(), s); time.Sleep(5 * time.Millisecond) {
		select {
		case <-p.ended:
			end = time.Time{}
		default:
		}
		if time.Now().After(end) && !strings.Contains(p.stderr.String(), s) {
			p.t.Fatalf("softrdma %v does not tell %q, but\n%s", p.cmd.Args[1:], s, &p.stderr)
		}
	}
}

// openInput gives an input that stays open, without anything in it, until it is
// closed.
func openInput(t *testing.T) (*os.File, *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	return r, w
}

func TestCatCarriesBothDirections(t *testing.T) {
	for _, c := range []struct{ there, back int }{{0, 0}, {1, 0}, {0, 1}, {3 << 20, 5<<20 + 1}} {
		at := serverAddress(t)
		there, back := noise(1, c.there), noise(2, c.back)
		s := catWaits(t, at, bytes.NewReader(back))
		g := catGoes(t, at, bytes.NewReader(there))
		same(t, "back", back, g.ends())
		same(t, "there", there, s.ends())
	}
}

// The end of the input ends one direction alone: what the peer makes of it
// comes back after it.
func TestCatHalfCloses(t *testing.T) {
	at := serverAddress(t)
	l, err := rdmanet.Listen("rdma", at+":7000")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		all, _ := io.ReadAll(conn)
		conn.Write(bytes.ToUpper(all))
	}()
	g := catGoes(t, at, strings.NewReader("to the end"))
	if out := string(g.ends()); out != "TO THE END" {
		t.Errorf("expected what the peer sends after the end, found %q", out)
	}
}

// A peer that closes altogether ends a cat whose input does not end, or has.
func TestCatPeerClosesWhileInputIsOpen(t *testing.T) {
	in, _ := openInput(t)
	for range 5 {
		testCatPeerCloses(t, in)
		testCatPeerCloses(t, nil)
	}
}

func testCatPeerCloses(t *testing.T, in io.Reader) {
	at := serverAddress(t)
	l, err := rdmanet.Listen("rdma", at+":7000")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	g := catGoes(t, at, in)
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	io.WriteString(conn, "bye")
	conn.Close()
	if out := string(g.ends()); out != "bye" {
		t.Errorf("expected %q, found %q", "bye", out)
	}
}

// A peer that closes before it has all is a failure.
func TestCatPeerClosesBeforeItHasAll(t *testing.T) {
	at := serverAddress(t)
	l, err := rdmanet.Listen("rdma", at+":7000")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	g := catGoes(t, at, bytes.NewReader(noise(1, 8<<20)))
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	io.ReadFull(conn, make([]byte, 100))
	conn.Close()
	g.fails(exitPeer, "send", "broken pipe")
}

// What goes to a peer that was killed is a failure too, though nothing but its
// silence tells.
func TestCatPeerKilledBeforeItHasAll(t *testing.T) {
	at := serverAddress(t)
	s := catWaits(t, at, nil)
	in, input := openInput(t)
	g := catGoes(t, at, in)
	s.tells("sent 0 bytes") // and has closed this direction
	if err := s.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-s.ended
	if _, err := io.WriteString(input, "for nobody"); err != nil {
		t.Fatal(err)
	}
	input.Close()
	g.fails(exitPeer, "send", "close")
}

func TestCatNobodyThere(t *testing.T) {
	at := serverAddress(t)
	dev, err := verbs.Open(at, verbs.Config{})
	if err != nil {
		t.Fatal(err)
	}
	catGoes(t, at, nil, "--timeout", "1h").fails(exitPeer, "nobody waits at "+at+":7000", `"softrdma cat -l 7000"`)
	if err := dev.Close(); err != nil {
		t.Fatal(err)
	}
	catGoes(t, at, nil, "--timeout", "300ms").fails(exitPeer, "no answer from "+at+":7000 within 300ms")
	start(t, "cat", "host.invalid", "7000").fails(exitPeer, "host.invalid")
}

func TestCatInterruptedLeavesNothing(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("SKIPPED: processes cannot send signals on windows")
	}
	at := serverAddress(t)
	in, _ := openInput(t)
	s := catWaits(t, at, nil)
	s.cmd.Process.Signal(os.Interrupt)
	if s.code() != exitInterrupted {
		t.Errorf("code %d, expected %d", s.code(), exitInterrupted)
	}
	checkFree(t, at, freePort(t))

	s = catWaits(t, at, in)
	g := catGoes(t, at, in)
	s.tells("connected to")
	s.cmd.Process.Signal(os.Interrupt)
	if s.code() != exitInterrupted {
		t.Errorf("code %d, expected %d", s.code(), exitInterrupted)
	}
	g.fails(exitPeer, "receive", "SOCKET_CUT")
	checkFree(t, at, freePort(t))
}

// What reads standard output may go away.
func TestCatOutputGone(t *testing.T) {
	at := serverAddress(t)
	out, w := openInput(t)
	s := prepare(t, "cat", "-v", "-l", at+":7000")
	s.cmd.Stdout = w
	s.start()
	w.Close()
	s.tells("waiting")
	g := catGoes(t, at, bytes.NewReader(noise(1, 8<<20)))
	io.ReadFull(out, make([]byte, 10))
	out.Close()
	if s.code() != exitFailed || !strings.Contains(s.stderr.String(), "standard output") {
		t.Errorf("expected a failure of standard output, found code %d, %s", s.code(), &s.stderr)
	}
	g.fails(exitPeer)
}

func TestCatCapture(t *testing.T) {
	at, file := serverAddress(t), filepath.Join(t.TempDir(), "x.pcapng")
	s := catWaits(t, at, strings.NewReader("there"), "--pcap", file)
	here := filepath.Join(t.TempDir(), "y.pcapng")
	g := prepare(t, "cat", at, "7000", "--pcap", here)
	g.start()
	g.ends()
	s.ends()
	for _, f := range []string{file, here} {
		if out := run(t, "capture", "--strict", f); !strings.Contains(out, "RDMA WRITE") || !strings.Contains(out, "0x80010000") || !strings.Contains(out, "0 faults") {
			t.Errorf("%s: expected the connection's packets, found\n%s", f, out)
		}
	}
}

func TestCatWrongArguments(t *testing.T) {
	for args, word := range map[string]string{
		"":                              "HOST PORT",
		"host":                          "127.0.0.1:7000",
		"host port":                     `"port"`,
		"host 0":                        "1 to 65535",
		":7000":                         "HOST PORT",
		"-l 70000":                      "70000",
		"-l 127.0.0.1:x":                `"x"`,
		"-l 7000 host":                  "takes no HOST",
		"-l 7000 -I lo":                 "-I",
		"-l 7000 --pcap x":              "-l ADDR:PORT",
		"host 7000 --timeout 0s":        "positive",
		"host 7000 more":                "at most 2 arg",
		"-l 7000 --no-such-flag-at-all": "no-such-flag",
	} {
		start(t, append([]string{"cat"}, strings.Fields(args)...)...).fails(exitUsage, word)
	}
}

func TestHostPort(t *testing.T) {
	for in, want := range map[string]string{"7000": ":7000", ":7000": ":7000", "[::1]:7": "[::1]:7", "h:1": "h:1"} {
		host, port, err := hostPort(in)
		if got := net.JoinHostPort(host, strconv.Itoa(int(port))); err != nil || got != want {
			t.Errorf("%s: expected %s, found %s, %v", in, want, got, err)
		}
	}
}
