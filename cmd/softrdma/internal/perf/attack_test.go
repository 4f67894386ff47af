package perf

import (
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"softrdma/cmd/softrdma/internal/clitest"
	"softrdma/internal/attack"
)

// Other programs connect to the TCP port of a perf server: more than it keeps, silent
// ones and ones that send garbage, part of a message, or disconnect. The server names
// them, serves the client that connects after them, and succeeds.
func TestAttackOtherProgramsOnPerfServer(t *testing.T) {
	openings := []string{
		"", "GET / HTTP/1.1\r\n\r\n", `{"do":"hello","ver`, `{"do":"begin","count":3}` + "\n", "\x16\x03\x01\x02\x00\x01", "\x00\n", "null\n",
		strings.Repeat("x", 1<<16), `{"do":"bye"}` + "\n", `{"error":"gone"}` + "\n",
	}
	port := clitest.FreePort(t)
	server := clitest.Start(t, "perf", "write", "bw", "-p", port, "-d", clitest.LoopbackDevice(t))
	server.Prints("waiting for a client")
	var open []net.Conn
	defer func() {
		for _, c := range open {
			c.Close()
		}
	}()
	dial := func(i int) net.Conn {
		c, err := net.Dial("tcp", "127.0.0.1:"+port)
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(c, openings[i%len(openings)])
		open = append(open, c)
		return c
	}
	// The server prints only some lines of many, so these come first.
	for i := range openings {
		dial(i)
	}
	server.Prints("expected a message of softrdma")
	server.Prints(`expected "hello", found "begin"`)
	for i := range maxPending + attack.Count(50) {
		c := dial(i)
		if i%7 == 0 {
			c.(*net.TCPConn).SetLinger(0)
			c.Close()
		}
	}
	client := clitest.Start(t, "perf", "write", "bw", "-n", "100", "-s", "1000", "-p", port, "-d", clitest.LoopbackDevice(t), "127.0.0.1")
	client.Succeeds()
	if out := server.Succeeds(); !strings.Contains(out, "measures write bw") {
		t.Errorf("expected the client to be served, found\n%s", out)
	}
}

// More silent connections than the server keeps: it closes the oldest before their time
// is over.
func TestAttackSilentConnectionsToPerfServer(t *testing.T) {
	const more = 5
	port := clitest.FreePort(t)
	server := clitest.Start(t, "perf", "write", "bw", "-p", port, "-d", clitest.LoopbackDevice(t))
	server.Prints("waiting for a client")
	var open []net.Conn
	for range maxPending + more {
		c, err := net.Dial("tcp", "127.0.0.1:"+port)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		open = append(open, c)
	}
	for i, c := range open[:more] {
		c.SetReadDeadline(time.Now().Add(clitest.Timeout))
		if _, err := io.ReadAll(c); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("connection %d was not closed", i)
		}
	}
	clitest.Start(t, "perf", "write", "bw", "-n", "100", "-p", port, "-d", clitest.LoopbackDevice(t), "127.0.0.1").Succeeds()
	server.Succeeds()
}
