package cat

import (
	"bytes"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"

	"softrdma/cmd/softrdma/internal/cli"
	"softrdma/cmd/softrdma/internal/clitest"
	"softrdma/rdmanet"
	"softrdma/verbs"
)

// startListener starts a cat -l on an address.
func startListener(t *testing.T, at string, in io.Reader, flags ...string) *clitest.Process {
	t.Helper()
	p := clitest.Prepare(t, append([]string{"cat", "-v", "-l", at + ":7000"}, flags...)...)
	p.Cmd.Stdin = in
	p.Start()
	p.PrintsError("waiting for a client on " + at + " port 7000")
	return p
}

// startDialer starts a cat that connects to it.
func startDialer(t *testing.T, at string, in io.Reader, flags ...string) *clitest.Process {
	t.Helper()
	p := clitest.Prepare(t, append([]string{"cat", "-I", clitest.LoopbackDevice(t), at, "7000"}, flags...)...)
	p.Cmd.Stdin = in
	p.Start()
	return p
}

// pipeInput returns an empty input that stays open until it is closed.
func pipeInput(t *testing.T) (*os.File, *os.File) {
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
		at := clitest.ServerAddress(t)
		there, back := clitest.RandomData(1, c.there), clitest.RandomData(2, c.back)
		s := startListener(t, at, bytes.NewReader(back))
		g := startDialer(t, at, bytes.NewReader(there))
		clitest.SameData(t, "back", back, g.Output())
		clitest.SameData(t, "there", there, s.Output())
	}
}

// The end of the input ends only one direction. What the peer sends after it arrives.
func TestCatHalfCloses(t *testing.T) {
	at := clitest.ServerAddress(t)
	l, err := rdmanet.Listen("rdma", at+":7000")
	if err != nil {
		t.Fatal(err)
	}
	var serves sync.WaitGroup
	defer serves.Wait()
	defer l.Close()
	serves.Go(func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		all, _ := io.ReadAll(conn)
		conn.Write(bytes.ToUpper(all))
	})
	g := startDialer(t, at, strings.NewReader("to the end"))
	if out := string(g.Output()); out != "TO THE END" {
		t.Errorf("expected what the peer sends after the end, found %q", out)
	}
}

// A peer that closes ends a cat whether or not its input has ended.
func TestCatPeerClosesWhileInputIsOpen(t *testing.T) {
	in, _ := pipeInput(t)
	for range 5 {
		testCatPeerCloses(t, in)
		testCatPeerCloses(t, nil)
	}
}

func testCatPeerCloses(t *testing.T, in io.Reader) {
	at := clitest.ServerAddress(t)
	l, err := rdmanet.Listen("rdma", at+":7000")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	g := startDialer(t, at, in)
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	io.WriteString(conn, "bye")
	conn.Close()
	if out := string(g.Output()); out != "bye" {
		t.Errorf("expected %q, found %q", "bye", out)
	}
}

// A peer that closes before it has received everything is an error.
func TestCatPeerClosesBeforeItHasAll(t *testing.T) {
	at := clitest.ServerAddress(t)
	l, err := rdmanet.Listen("rdma", at+":7000")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	g := startDialer(t, at, bytes.NewReader(clitest.RandomData(1, 8<<20)))
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	io.ReadFull(conn, make([]byte, 100))
	conn.Close()
	g.Fails(cli.ExitPeer, "send", "broken pipe")
}

// Data to a peer that was killed is an error too, although only the peer's silence shows it.
func TestCatPeerKilledBeforeItHasAll(t *testing.T) {
	at := clitest.ServerAddress(t)
	s := startListener(t, at, nil)
	in, input := pipeInput(t)
	g := startDialer(t, at, in)
	s.PrintsError("sent 0 bytes") // it has closed this direction
	if err := s.Cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-s.Ended
	if _, err := io.WriteString(input, "for no receiver"); err != nil {
		t.Fatal(err)
	}
	input.Close()
	g.Fails(cli.ExitPeer, "send", "close")
}

func TestCatWithoutServer(t *testing.T) {
	at := clitest.ServerAddress(t)
	dev, err := verbs.Open(at, verbs.Config{})
	if err != nil {
		t.Fatal(err)
	}
	startDialer(t, at, nil, "--timeout", "1h").Fails(cli.ExitPeer, "nothing listens at "+at+":7000", `"softrdma cat -l 7000"`)
	if err := dev.Close(); err != nil {
		t.Fatal(err)
	}
	startDialer(t, at, nil, "--timeout", "300ms").Fails(cli.ExitPeer, "no answer from "+at+":7000 within 300ms")
	clitest.Start(t, "cat", "host.invalid", "7000").Fails(cli.ExitPeer, "host.invalid")
}

func TestCatInterruptedLeavesNothing(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("SKIPPED: processes cannot send signals on windows")
	}
	at := clitest.ServerAddress(t)
	in, _ := pipeInput(t)
	s := startListener(t, at, nil)
	s.Cmd.Process.Signal(os.Interrupt)
	if s.ExitCode() != cli.ExitInterrupted {
		t.Errorf("code %d, expected %d", s.ExitCode(), cli.ExitInterrupted)
	}
	clitest.CheckFree(t, at, clitest.FreePort(t))

	s = startListener(t, at, in)
	g := startDialer(t, at, in)
	s.PrintsError("connected to")
	s.Cmd.Process.Signal(os.Interrupt)
	if s.ExitCode() != cli.ExitInterrupted {
		t.Errorf("code %d, expected %d", s.ExitCode(), cli.ExitInterrupted)
	}
	g.Fails(cli.ExitPeer, "receive", "SOCKET_CUT")
	clitest.CheckFree(t, at, clitest.FreePort(t))
}

// The reader of standard output may close it.
func TestCatOutputGone(t *testing.T) {
	at := clitest.ServerAddress(t)
	out, w := pipeInput(t)
	s := clitest.Prepare(t, "cat", "-v", "-l", at+":7000")
	s.Cmd.Stdout = w
	s.Start()
	w.Close()
	s.PrintsError("waiting")
	g := startDialer(t, at, bytes.NewReader(clitest.RandomData(1, 8<<20)))
	io.ReadFull(out, make([]byte, 10))
	out.Close()
	if s.ExitCode() != cli.ExitFailed || !strings.Contains(s.Stderr.String(), "standard output") {
		t.Errorf("expected a failure of standard output, found code %d, %s", s.ExitCode(), &s.Stderr)
	}
	g.Fails(cli.ExitPeer)
}

func TestCatCapture(t *testing.T) {
	at, file := clitest.ServerAddress(t), filepath.Join(t.TempDir(), "x.pcapng")
	s := startListener(t, at, strings.NewReader("there"), "--pcap", file)
	here := filepath.Join(t.TempDir(), "y.pcapng")
	g := clitest.Prepare(t, "cat", at, "7000", "--pcap", here)
	g.Start()
	g.Output()
	s.Output()
	for _, f := range []string{file, here} {
		if out := clitest.Run(t, "capture", "--strict", f); !strings.Contains(out, "RDMA WRITE") || !strings.Contains(out, "0x80010000") || !strings.Contains(out, "0 faults") {
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
		"host 7000 more":                "found 3 arguments",
		"-l 7000 --no-such-flag-at-all": "no-such-flag",
	} {
		clitest.Start(t, append([]string{"cat"}, strings.Fields(args)...)...).Fails(cli.ExitUsage, word)
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
