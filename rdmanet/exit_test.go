package rdmanet

import (
	"io"
	"os"
	"os/exec"
	"strconv"
	"testing"

	"softrdma/rdmacm"
	"softrdma/rdmanet/internal/rsocket"
	"softrdma/verbs"
)

// The environment of TestWriterProcess.
const (
	writerAddress = "SOFTRDMA_TEST_WRITER_ADDRESS"
	writerLength  = "SOFTRDMA_TEST_WRITER_LENGTH"
)

const exitSecret = "these bytes are not random"

// TestWriterProcess is a program that writes, closes and exits at once. It is run by
// TestCloseThenExitLosesNothing.
func TestWriterProcess(t *testing.T) {
	at := os.Getenv(writerAddress)
	if at == "" {
		t.Skip("only runs as a process of TestCloseThenExitLosesNothing")
	}
	n, err := strconv.Atoi(os.Getenv(writerLength))
	if err != nil {
		t.Fatal(err)
	}
	d := Dialer{Protocol: verbs.IWARP}
	if d.TLS, err = verbs.SharedSecret([]byte(exitSecret)); err != nil {
		t.Fatal(err)
	}
	c, err := d.Dial("rdma", at)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Write(random(1, n)); err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	os.Exit(0)
}

func TestCloseThenExitLosesNothing(t *testing.T) {
	secret, err := verbs.SharedSecret([]byte(exitSecret))
	if err != nil {
		t.Fatal(err)
	}
	testPrefix, testTLS = "iwarp:", secret
	defer func() { testPrefix, testTLS = "", nil }()
	runs := 10
	if testing.Short() {
		runs = 2
	}
	l := listen(t, ListenConfig{})
	for _, n := range []int{64, 64 << 10, 1 << 20} {
		for range runs {
			writer := exec.Command(os.Args[0], "-test.run=^TestWriterProcess$")
			writer.Env = append(os.Environ(), writerAddress+"="+l.Addr().String(), writerLength+"="+strconv.Itoa(n))
			out := make(chan error, 1)
			go func() {
				text, err := writer.CombinedOutput()
				if err != nil {
					t.Logf("writer: %v\n%s", err, text)
				}
				out <- err
			}()
			l.SetDeadline(soon())
			s, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.Copy(io.Discard, s)
			if err != nil || got != int64(n) {
				t.Errorf("read %d of %d bytes: %v", got, n, err)
			}
			if err := <-out; err != nil {
				t.Errorf("%d bytes: %v", n, err)
			}
			s.Close()
		}
	}
}

// librdmacm's rsockets serve no READs if they have made the connection, and do not say that they answer those
// of no bytes. Nothing can be proven there, and Close does not wait for a proof.
func TestCloseWithoutProofOverIWARP(t *testing.T) {
	testPrefix = "iwarp:"
	defer func() { testPrefix = "" }()
	for _, depth := range []uint8{rdmacm.Zero, 1} {
		l, d := listen(t, ListenConfig{}), dialer(t)
		cm := rdmacm.Dialer{Device: d.Device}
		e, err := cm.Resolve(t.Context(), l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		c, err := prepare(e, &d.Options, e.Close)
		if err != nil {
			t.Fatal(err)
		}
		p := param(c)
		p.ResponderResources = depth
		conn, err := e.Connect(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		peer, err := rsocket.ParseConnData(conn.PrivateData())
		if err != nil {
			t.Fatal(err)
		}
		if depth == 1 {
			peer.Flags &^= rsocket.FlagProof
		}
		c.start(&peer, conn, tcpAddr(conn.LocalAddr()), tcpAddr(conn.RemoteAddr()))
		l.SetDeadline(soon())
		s, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		if got, want := s.(*Conn).proves, depth == 1; got != want || c.proves == want {
			t.Errorf("depth %d: the listener's end proves %v, expected %v; the dialer's %v, expected the other", depth, got, want, c.proves)
		}
		if _, err := io.WriteString(s, "all of it"); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Errorf("depth %d: %v", depth, err)
		}
		if b, err := io.ReadAll(c); err != nil || string(b) != "all of it" {
			t.Errorf("depth %d: read %q, %v", depth, b, err)
		}
		if err := c.Close(); err != nil {
			t.Errorf("depth %d: %v", depth, err)
		}
	}
}
