package rdmacm

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"softrdma/verbs"
)

// Connections between two processes. The second process is this test binary
// again, which serves until its standard input ends.

const serverEnv = "SOFTRDMA_CONNECTION_SERVER"

// small is a queue pair configuration for many: rings of one request.
var small = verbs.QPConfig{MaxSend: 1, MaxRecv: 1, MaxSendSGE: 1, MaxRecvSGE: 1}

// A served is the server's answer to each question: its address and its resource usage.
type served struct {
	Addr              string
	TCP               string
	QPs               int
	Counts            string // of the device and of the manager
	Goroutines, Files int
}

// TestConnectionServer is the second process.
func TestConnectionServer(t *testing.T) {
	local := os.Getenv(serverEnv)
	if local == "" {
		t.Skip("the second process of TestTenThousandConnectionsBetweenProcessesLeaveNothing and BenchmarkConnectProcesses, which start it")
	}
	dev, err := verbs.Open(local, verbs.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	l, err := Listen(net.JoinHostPort(local, "0"), ListenConfig{Backlog: 256, QP: small})
	if err != nil {
		t.Fatal(err)
	}
	tcp, err := net.Listen("tcp", net.JoinHostPort(local, "0"))
	if err != nil {
		t.Fatal(err)
	}
	failed := serveAll(l)
	go func() {
		for {
			c, err := tcp.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = c.Read(make([]byte, 1))
				_ = c.Close()
			}()
		}
	}()
	out := json.NewEncoder(os.Stdout)
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		c := count()
		out.Encode(served{
			l.Addr().String(), tcp.Addr().String(), dev.Counts().QP, fmt.Sprintf("%+v %+v %d", dev.Counts(), c.manager, c.devices),
			c.goroutines, c.files,
		})
	}
	_, _ = tcp.Close(), l.Close()
	if err := <-failed; err != nil {
		t.Error(err)
	}
}

// A peer is the running second process.
type peer struct {
	t   testing.TB
	in  io.WriteCloser
	out *json.Decoder
}

func startPeer(t testing.TB, local string) *peer {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestConnectionServer$", "-test.timeout=5m")
	cmd.Env = append(os.Environ(), serverEnv+"="+local)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		io.Copy(io.Discard, out)
		if err := cmd.Wait(); err != nil {
			t.Errorf("second process: %v", err)
		}
	})
	return &peer{t, in, json.NewDecoder(out)}
}

// ask asks the second process for its resource usage.
func (p *peer) ask() (s served) {
	p.t.Helper()
	if _, err := fmt.Fprintln(p.in); err != nil {
		p.t.Fatal(err)
	}
	if err := p.out.Decode(&s); err != nil {
		p.t.Fatal(err)
	}
	return s
}

// all calls do n times, by 16 goroutines.
func all(t testing.TB, n int, do func(i int) error) {
	t.Helper()
	next := make(chan int)
	var wait sync.WaitGroup
	for range 16 {
		wait.Go(func() {
			for i := range next {
				if err := do(i); err != nil {
					t.Errorf("connection %d: %v", i, err)
				}
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	wait.Wait()
}

func TestTenThousandConnectionsBetweenProcessesLeaveNothing(t *testing.T) {
	n := 10000
	if testing.Short() {
		n = 500
	}
	leavesNothing(t)
	p := startPeer(t, ip(31))
	dev, err := verbs.Open(ip(32), verbs.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	before, own := p.ask(), dev.Counts()
	d := Dialer{Device: dev, QP: small}
	// The first one allocates what a process needs only once.
	c, err := d.Dial(ctx, before.Addr)
	if err != nil {
		t.Fatal(err)
	}
	closed(t, c)
	eventually(t, "the first connection's end", func() bool { return p.ask().QPs == 0 })
	before = p.ask()

	standing := make([]*Conn, n)
	all(t, n, func(i int) (err error) {
		standing[i], err = d.Dial(ctx, before.Addr)
		return err
	})
	if t.Failed() {
		return
	}
	eventually(t, "as many queue pairs at the server", func() bool { return p.ask().QPs == n })
	if q := dev.Counts().QP; q != n {
		t.Errorf("queue pairs: expected %d, found %d", n, q)
	}
	all(t, n, func(i int) error { return standing[i].Close() })
	if now := dev.Counts(); now != own {
		t.Errorf("objects: expected %+v, found %+v", own, now)
	}
	eventually(t, "no objects left at the server", func() bool { return p.ask().QPs == 0 })
	var now served
	defer func() { t.Logf("server before %+v, after %+v", before, now) }()
	eventually(t, "nothing else left at the server", func() bool {
		now = p.ask()
		return now.Counts == before.Counts && now.Goroutines <= before.Goroutines && now.Files <= before.Files
	})
}

// BenchmarkConnectProcesses measures the rate of set-up and tear-down between two processes,
// and that of the kernel's TCP.
func BenchmarkConnectProcesses(b *testing.B) {
	p := startPeer(b, ip(33))
	at := p.ask()
	b.Run("rdmacm", func(b *testing.B) {
		dev, err := verbs.Open(ip(34), verbs.Config{})
		if err != nil {
			b.Fatal(err)
		}
		defer dev.Close()
		each(b, func() error {
			c, err := Dial(context.Background(), at.Addr, Dialer{Device: dev, QP: small})
			if err != nil {
				return err
			}
			return c.Close()
		})
	})
	b.Run("tcp", func(b *testing.B) {
		each(b, func() error {
			c, err := net.Dial("tcp", at.TCP)
			if err != nil {
				return err
			}
			return c.Close()
		})
	})
}
