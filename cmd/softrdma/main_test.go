package main

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// builtCommand is the command as users have it, built once for all tests.
var builtCommand string

func TestMain(m *testing.M) { os.Exit(testMain(m)) }

func testMain(m *testing.M) int {
	dir, err := os.MkdirTemp("", "softrdma-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	builtCommand = filepath.Join(dir, "softrdma")
	if runtime.GOOS == "windows" {
		builtCommand += ".exe"
	}
	build := exec.Command("go", "build", "-o", builtCommand, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build the command: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// A process is a run of the command.
type process struct {
	t      *testing.T
	cmd    *exec.Cmd
	stdout output
	stderr output
	ended  chan struct{}
}

// output is what a process printed so far.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// prepare makes a run of the command that is still to be started.
func prepare(t *testing.T, args ...string) *process {
	p := &process{t: t, cmd: exec.Command(builtCommand, args...), ended: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = &p.stdout, &p.stderr
	p.cmd.WaitDelay = time.Second // children of its may outlive it
	return p
}

// start runs the command until it ends, or the test does.
func start(t *testing.T, args ...string) *process {
	t.Helper()
	p := prepare(t, args...)
	p.start()
	return p
}

func (p *process) start() {
	p.t.Helper()
	if err := p.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	go func() {
		p.cmd.Wait()
		close(p.ended)
	}()
	p.t.Cleanup(func() {
		p.cmd.Process.Kill()
		<-p.ended
	})
}

// patience is how long tests wait for what takes a moment.
const patience = 60 * time.Second

// code waits for the end and gives the exit code.
func (p *process) code() int {
	p.t.Helper()
	select {
	case <-p.ended:
	case <-time.After(patience):
		p.t.Fatalf("softrdma %v does not end; it printed\n%s%s", p.cmd.Args[1:], &p.stdout, &p.stderr)
	}
	return p.cmd.ProcessState.ExitCode()
}

// prints waits until the command has printed s.
func (p *process) prints(s string) {
	p.t.Helper()
	for end := time.Now().Add(patience); !strings.Contains(p.stdout.String(), s); time.Sleep(5 * time.Millisecond) {
		select {
		case <-p.ended:
			if !strings.Contains(p.stdout.String(), s) {
				p.t.Fatalf("softrdma %v ended without printing %q, but\n%s%s", p.cmd.Args[1:], s, &p.stdout, &p.stderr)
			}
			return
		default:
		}
		if time.Now().After(end) {
			p.t.Fatalf("softrdma %v does not print %q, but\n%s%s", p.cmd.Args[1:], s, &p.stdout, &p.stderr)
		}
	}
}

// fails waits for the end and wants the code, with one line on standard error
// that holds all of words, and no usage text.
func (p *process) fails(code int, words ...string) {
	p.t.Helper()
	if got := p.code(); got != code {
		p.t.Errorf("softrdma %v: code %d, expected %d; it printed\n%s%s", p.cmd.Args[1:], got, code, &p.stdout, &p.stderr)
	}
	message := p.stderr.String()
	if strings.Count(message, "\n") != 1 || !strings.HasPrefix(message, "softrdma: ") {
		p.t.Errorf("softrdma %v: expected one line on standard error, found %q", p.cmd.Args[1:], message)
	}
	for _, w := range words {
		if !strings.Contains(message, w) {
			p.t.Errorf("softrdma %v: expected an error about %q, found %q", p.cmd.Args[1:], w, message)
		}
	}
}

// succeeds waits for the end, wants code 0 and gives what was printed.
func (p *process) succeeds() string {
	p.t.Helper()
	if got := p.code(); got != exitOK || p.stderr.String() != "" {
		p.t.Fatalf("softrdma %v: code %d, expected 0; it printed\n%s%s", p.cmd.Args[1:], got, &p.stdout, &p.stderr)
	}
	return p.stdout.String()
}

// run is start and succeeds.
func run(t *testing.T, args ...string) string {
	t.Helper()
	return start(t, args...).succeeds()
}

var loopbackDevices atomic.Uint32

// loopbackDevice gives a device on the loopback interface that no other test has.
// Where the system has but one loopback address, devices differ by UDP port.
func loopbackDevice(t *testing.T) string {
	t.Helper()
	if runtime.GOOS == "linux" || runtime.GOOS == "windows" {
		n := loopbackDevices.Add(1)
		return fmt.Sprintf("127.%d.%d.%d", 64+os.Getpid()%128, n/250, 1+n%250)
	}
	c, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	return c.LocalAddr().String()
}

// freePort gives a TCP port that nobody listens on.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return fmt.Sprint(l.Addr().(*net.TCPAddr).Port)
}

// lacks skips a test for which this machine lacks something; CI has it all.
func lacks(t *testing.T, what string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatal("CI lacks ", what)
	}
	t.Skip("SKIPPED: this machine lacks ", what)
}
