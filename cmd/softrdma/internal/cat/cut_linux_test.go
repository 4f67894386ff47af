package cat

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"softrdma/cmd/softrdma/internal/cli"
	"softrdma/cmd/softrdma/internal/clitest"
)

// wantCut checks that a cat ended with the exit code of a lost peer, and that its error
// says that the stream was cut and why.
func wantCut(t *testing.T, p *clitest.Process, causes ...string) {
	t.Helper()
	got, text := p.ExitCode(), p.Stderr.String()
	named := len(causes) == 0 || slices.ContainsFunc(causes, func(c string) bool { return strings.Contains(text, c) })
	if got != cli.ExitPeer || !strings.Contains(text, "SOCKET_CUT") || !named {
		t.Errorf("softrdma %v: code %d, expected %d, SOCKET_CUT and one of %q: %s", p.Cmd.Args[1:], got, cli.ExitPeer, causes, text)
	}
}

// waitOutput listener until n bytes were printed.
func waitOutput(t *testing.T, p *clitest.Process, n int) {
	t.Helper()
	for end := time.Now().Add(clitest.Timeout); ; time.Sleep(5 * time.Millisecond) {
		found := len(p.Stdout.String())
		if found == n {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("softrdma %v: %d bytes came out, expected %d: %s", p.Cmd.Args[1:], found, n, &p.Stderr)
		}
	}
}

// connectedPair starts a cat -l that has received part of what another cat sends.
func connectedPair(t *testing.T, at, to string, part int, flags ...string) (listener, dialer *clitest.Process, input *os.File) {
	t.Helper()
	open, _ := pipeInput(t)
	listener = startListener(t, at, open, flags...)
	in, input := pipeInput(t)
	dialer = clitest.Prepare(t, append([]string{"cat", to, "7000"}, flags...)...)
	dialer.Cmd.Stdin = in
	dialer.Start()
	if _, err := input.Write(clitest.RandomData(1, part)); err != nil {
		t.Fatal(err)
	}
	waitOutput(t, listener, part)
	return listener, dialer, input
}

func TestCatSenderKilledIsNotEndOfFile(t *testing.T) {
	secret := []string{"--protocol", "iwarp", "--psk-file", clitest.SecretFile(t, "a secret that is not random")}
	for name, flags := range map[string][]string{"roce": nil, "iwarp": {"--protocol", "iwarp"}, "tls": secret} {
		t.Run(name, func(t *testing.T) {
			if name == "roce" && testing.Short() {
				t.Skip("SKIPPED: takes the time of a keep-alive")
			}
			t.Parallel()
			at := clitest.ServerAddress(t)
			listener, dialer, _ := connectedPair(t, at, at, 60_000, flags...)
			if err := dialer.Cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			wantCut(t, listener)
		})
	}
}

// A relay carries one TCP connection. When it is cut, both ends read the end of TCP and
// all data before it.
type relay struct {
	carries chan struct{} // closed when ends is set
	ends    []net.Conn
	drops   atomic.Bool // discard what the dialer sends
	over    atomic.Bool // discard everything
}

// A direction is an io.Writer for what is sent to an end.
type direction struct {
	*relay
	to net.Conn
}

func (d direction) Write(b []byte) (int, error) {
	if d.over.Load() || d.drops.Load() && d.to == d.ends[1] {
		return len(b), nil
	}
	return d.to.Write(b)
}

func startRelay(t *testing.T, from, to string) *relay {
	t.Helper()
	l, err := net.Listen("tcp", from)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	r := &relay{carries: make(chan struct{})}
	go func() {
		a, err := l.Accept()
		if err != nil {
			return
		}
		b, err := net.Dial("tcp", to)
		if err != nil {
			a.Close()
			return
		}
		r.ends = []net.Conn{a, b}
		t.Cleanup(func() { a.Close(); b.Close() })
		close(r.carries)
		go io.Copy(direction{r, a}, struct{ io.Reader }{b})
		io.Copy(direction{r, b}, struct{ io.Reader }{a})
	}()
	return r
}

// cut ends both directions of the connection after it was established. It does not close sockets: one with
// unread data would reset the connection. What one end says when it notices does not reach the other one.
func (r *relay) cut() {
	<-r.carries
	r.over.Store(true)
	for _, c := range r.ends {
		_ = c.(*net.TCPConn).CloseWrite()
	}
}

func TestCatCutConnectionIsNotEndOfFile(t *testing.T) {
	secret := []string{"--protocol", "iwarp", "--psk-file", clitest.SecretFile(t, "a secret that is not random")}
	for name, flags := range map[string][]string{"iwarp": {"--protocol", "iwarp"}, "tls": secret} {
		t.Run(name, func(t *testing.T) {
			at, between := clitest.ServerAddress(t), clitest.ServerAddress(t)
			r := startRelay(t, between+":7000", at+":7000")
			listener, dialer, _ := connectedPair(t, at, between, 60_000, flags...)
			r.cut()
			// A request of the receiver, which says that it has read, may be under way.
			causes := map[string][]string{"iwarp": {"STREAM_CLOSED", "STREAM_LOST"}, "tls": {"TLS_LOST"}}[name]
			wantCut(t, listener, causes...)
			wantCut(t, dialer, causes...)
		})
	}
}

// halfClosed starts a cat -l that has ended its own direction, and a cat that sends to it
// through a relay and has read that end.
func halfClosed(t *testing.T, flags []string) (r *relay, listener, dialer *clitest.Process, input *os.File) {
	t.Helper()
	at, between := clitest.ServerAddress(t), clitest.ServerAddress(t)
	r = startRelay(t, between+":7000", at+":7000")
	listener = startListener(t, at, nil, flags...)
	in, input := pipeInput(t)
	dialer = clitest.Prepare(t, append([]string{"cat", "-v", between, "7000"}, flags...)...)
	dialer.Cmd.Stdin = in
	dialer.Start()
	dialer.PrintsError("received 0 bytes")
	return r, listener, dialer, input
}

// wantLost checks that a cat ended with the exit code of a lost peer because some of its data
// has not arrived.
func wantLost(t *testing.T, p *clitest.Process) {
	t.Helper()
	if got, text := p.ExitCode(), p.Stderr.String(); got != cli.ExitPeer || !strings.Contains(text, "softrdma: send: ") {
		t.Errorf("softrdma %v: code %d, expected %d and an error of sending: %s", p.Cmd.Args[1:], got, cli.ExitPeer, text)
	}
}

// A receiver that has ended its own direction still receives: a cut must not look like the end
// of the data.
func TestAttackCutBehindHalfCloseIsNotSuccess(t *testing.T) {
	secret := []string{"--protocol", "iwarp", "--psk-file", clitest.SecretFile(t, "a secret that is not random")}
	for name, flags := range map[string][]string{"iwarp": {"--protocol", "iwarp"}, "tls": secret} {
		t.Run(name, func(t *testing.T) {
			// The sender waits for input.
			r, listener, dialer, _ := halfClosed(t, flags)
			r.cut()
			wantCut(t, listener)
			wantLost(t, dialer)

			// The sender has sent everything, and the receiver gets nothing of it.
			r, listener, dialer, input := halfClosed(t, flags)
			r.drops.Store(true)
			if _, err := input.Write(clitest.RandomData(1, 60_000)); err != nil {
				t.Fatal(err)
			}
			input.Close()
			dialer.PrintsError("sent 60000 bytes")
			r.cut()
			wantCut(t, listener)
			wantLost(t, dialer)
		})
	}
}

// A cat that is interrupted or cannot continue reading does not end the stream in order.
func TestCatAbortIsNotEndOfFile(t *testing.T) {
	for _, protocol := range []string{"roce", "iwarp"} {
		at := clitest.ServerAddress(t)
		listener, dialer, _ := connectedPair(t, at, at, 60_000, "--protocol", protocol)
		dialer.Cmd.Process.Signal(syscall.SIGINT)
		wantCut(t, listener)
		dialer.Fails(cli.ExitInterrupted)

		at = clitest.ServerAddress(t)
		open, _ := pipeInput(t)
		listener = startListener(t, at, open, "--protocol", protocol)
		dir, err := os.Open(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		defer dir.Close()
		dialer = clitest.Prepare(t, "cat", at, "7000", "--protocol", protocol)
		dialer.Cmd.Stdin = dir // cannot be read
		dialer.Start()
		dialer.Fails(cli.ExitFailed, "standard input")
		wantCut(t, listener)
	}
}

// A killed receiver has not received what was sent after it ended its own direction.
// The test sends more than a receiver has credit for, so that the sender notices it while
// it still has input.
func TestCatReceiverKilledOverIWARP(t *testing.T) {
	at := clitest.ServerAddress(t)
	s := startListener(t, at, nil, "--protocol", "iwarp")
	in, input := pipeInput(t)
	g := clitest.Prepare(t, "cat", at, "7000", "--protocol", "iwarp")
	g.Cmd.Stdin = in
	g.Start()
	in.Close()                    // so that writing fails when the sender has ended
	s.PrintsError("sent 0 bytes") // it has closed this direction
	if err := s.Cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-s.Ended
	if _, err := io.Copy(input, bytes.NewReader(clitest.RandomData(1, 4<<20))); err != nil && !errors.Is(err, syscall.EPIPE) {
		t.Fatal(err)
	}
	input.Close()
	g.Fails(cli.ExitPeer, "send", "reset by peer")
}
