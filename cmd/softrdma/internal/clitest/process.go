// Package clitest builds the command and runs it in tests.
package clitest

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"softrdma/internal/testenv"
	"softrdma/preload"
	"softrdma/verbs"
)

// built is the command, which the first test that runs it builds.
var built struct {
	once sync.Once
	dir  string
	path string
	err  error
}

// Main runs the tests of a package and removes the command that they built.
func Main(m *testing.M) {
	code := m.Run()
	os.RemoveAll(built.dir)
	os.Exit(code)
}

// Command builds the command, unless another test of the package has, and returns its
// path. It returns the path in SOFTRDMA_TEST_COMMAND, if that is set: make unit builds
// the command once for all packages. With the race detector it skips the test. The
// command runs in processes without the detector, which would find nothing there.
func Command(t *testing.T) string {
	t.Helper()
	if raceEnabled {
		t.Skip("the race detector does not see other processes")
	}
	built.once.Do(build)
	if built.err != nil {
		t.Fatal(built.err)
	}
	return built.path
}

func build() {
	if built.path = os.Getenv("SOFTRDMA_TEST_COMMAND"); built.path != "" {
		return
	}
	if built.dir, built.err = os.MkdirTemp("", "softrdma-test-"); built.err != nil {
		return
	}
	built.path = filepath.Join(built.dir, "softrdma")
	if runtime.GOOS == "windows" {
		built.path += ".exe"
	}
	cmd := exec.Command("go", "build", "-o", built.path, "softrdma/cmd/softrdma")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		built.err = fmt.Errorf("build the command: %w\n%s", err, out)
	}
}

// A Process is a run of the command.
type Process struct {
	t      *testing.T
	Cmd    *exec.Cmd
	Stdout Output
	Stderr Output
	Ended  chan struct{}
}

// An Output is what a process has printed so far.
type Output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *Output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// Prepare returns a run of the command that has not started.
func Prepare(t *testing.T, args ...string) *Process {
	t.Helper()
	p := &Process{t: t, Cmd: exec.Command(Command(t), args...), Ended: make(chan struct{})}
	p.Cmd.Stdout, p.Cmd.Stderr = &p.Stdout, &p.Stderr
	p.Cmd.WaitDelay = time.Second // its children may outlive it
	return p
}

// Start starts the command, which is killed at the end of the test.
func Start(t *testing.T, args ...string) *Process {
	t.Helper()
	p := Prepare(t, args...)
	p.Start()
	return p
}

// Start starts a prepared process.
func (p *Process) Start() {
	p.t.Helper()
	if err := p.Cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	go func() {
		p.Cmd.Wait()
		close(p.Ended)
	}()
	p.t.Cleanup(func() {
		p.Cmd.Process.Kill()
		<-p.Ended
	})
}

// Timeout limits every wait of a test.
const Timeout = 60 * time.Second

// ExitCode waits for the end of the process and returns its exit code.
func (p *Process) ExitCode() int {
	p.t.Helper()
	select {
	case <-p.Ended:
	case <-time.After(Timeout):
		p.t.Fatalf("softrdma %v does not end; it printed\n%s%s", p.Cmd.Args[1:], &p.Stdout, &p.Stderr)
	}
	return p.Cmd.ProcessState.ExitCode()
}

// Prints waits until the process has printed s.
func (p *Process) Prints(s string) {
	p.t.Helper()
	for end := time.Now().Add(Timeout); !strings.Contains(p.Stdout.String(), s); time.Sleep(5 * time.Millisecond) {
		select {
		case <-p.Ended:
			if !strings.Contains(p.Stdout.String(), s) {
				p.t.Fatalf("softrdma %v ended without printing %q, but\n%s%s", p.Cmd.Args[1:], s, &p.Stdout, &p.Stderr)
			}
			return
		default:
		}
		if time.Now().After(end) {
			p.t.Fatalf("softrdma %v does not print %q, but\n%s%s", p.Cmd.Args[1:], s, &p.Stdout, &p.Stderr)
		}
	}
}

// Fails waits for the end of the process and checks its exit code. Standard error must
// have one line that contains all words, and no usage text.
func (p *Process) Fails(code int, words ...string) {
	p.t.Helper()
	if got := p.ExitCode(); got != code {
		p.t.Errorf("softrdma %v: code %d, expected %d; it printed\n%s%s", p.Cmd.Args[1:], got, code, &p.Stdout, &p.Stderr)
	}
	message := p.Stderr.String()
	if strings.Count(message, "\n") != 1 || !strings.HasPrefix(message, "softrdma: ") {
		p.t.Errorf("softrdma %v: expected one line on standard error, found %q", p.Cmd.Args[1:], message)
	}
	for _, w := range words {
		if !strings.Contains(message, w) {
			p.t.Errorf("softrdma %v: expected an error about %q, found %q", p.Cmd.Args[1:], w, message)
		}
	}
}

// Succeeds waits for the end of the process, checks that its exit code is 0 and
// standard error empty, and returns standard output.
func (p *Process) Succeeds() string {
	p.t.Helper()
	if got := p.ExitCode(); got != 0 || p.Stderr.String() != "" {
		p.t.Fatalf("softrdma %v: code %d, expected 0; it printed\n%s%s", p.Cmd.Args[1:], got, &p.Stdout, &p.Stderr)
	}
	return p.Stdout.String()
}

// Run is Start and Succeeds.
func Run(t *testing.T, args ...string) string {
	t.Helper()
	return Start(t, args...).Succeeds()
}

var loopbackDevices atomic.Uint32

// loopbackBase distinguishes the addresses of this process from those of other tests
// that run at the same time: 127.64.0.0 to 127.127.255.255 have 2^14 ranges of 250.
var loopbackBase = rand.Uint32N(1<<14 - 8)

// LoopbackDevice returns a device on the loopback interface that no other test uses.
// Where the system has only one loopback address, devices differ by UDP port.
func LoopbackDevice(t *testing.T) string {
	t.Helper()
	if runtime.GOOS == "linux" || runtime.GOOS == "windows" {
		n := loopbackDevices.Add(1)
		slot := loopbackBase + n/250
		return fmt.Sprintf("127.%d.%d.%d", 64+slot>>8, slot&255, 1+n%250)
	}
	return fmt.Sprintf("127.0.0.1:%d", testenv.FreePort(t, "udp"))
}

// FreePort returns a TCP port on which no program listens.
func FreePort(t *testing.T) string {
	t.Helper()
	return fmt.Sprint(testenv.FreePort(t, "tcp"))
}

// Packets returns how many packets with an opcode a capture has that softrdma capture printed. A packet that is
// sent again, because its acknowledge was late on a busy machine, counts once.
func Packets(printed, opcode string) int {
	psns := map[string]bool{}
	for _, p := range regexp.MustCompile(regexp.QuoteMeta(opcode)+` QP \w+ PSN \w+`).FindAllString(printed, -1) {
		psns[p] = true
	}
	return len(psns)
}

// RandomData returns n random bytes that depend on seed only.
func RandomData(seed, n int) []byte {
	b := make([]byte, n)
	rand.NewChaCha8([32]byte{byte(seed)}).Read(b)
	return b
}

// SameData compares data by its SHA-256.
func SameData(t *testing.T, what string, want, found []byte) {
	t.Helper()
	if sha256.Sum256(want) != sha256.Sum256(found) {
		t.Errorf("%s: expected %d bytes with SHA-256 %x, found %d bytes with %x", what, len(want), sha256.Sum256(want), len(found), sha256.Sum256(found))
	}
}

// Output waits for the end of the process, checks that its exit code is 0 and returns
// standard output.
func (p *Process) Output() []byte {
	p.t.Helper()
	if got := p.ExitCode(); got != 0 {
		p.t.Errorf("softrdma %v: code %d, expected 0: %s", p.Cmd.Args[1:], got, &p.Stderr)
	}
	return []byte(p.Stdout.String())
}

// PrintsError waits until the process has printed s to standard error.
func (p *Process) PrintsError(s string) {
	p.t.Helper()
	for end := time.Now().Add(Timeout); !strings.Contains(p.Stderr.String(), s); time.Sleep(5 * time.Millisecond) {
		select {
		case <-p.Ended:
			end = time.Time{}
		default:
		}
		if time.Now().After(end) && !strings.Contains(p.Stderr.String(), s) {
			p.t.Fatalf("softrdma %v does not tell %q, but\n%s", p.Cmd.Args[1:], s, &p.Stderr)
		}
	}
}

// AwaitError waits until the process has printed s to standard error, or another process has ended.
func (p *Process) AwaitError(other *Process, s string) {
	p.t.Helper()
	for end := time.Now().Add(Timeout); !strings.Contains(p.Stderr.String(), s); time.Sleep(5 * time.Millisecond) {
		select {
		case <-other.Ended:
			return
		default:
		}
		if time.Now().After(end) {
			p.t.Fatalf("softrdma %v does not tell %q, but\n%s%s", p.Cmd.Args[1:], s, &p.Stderr, &other.Stderr)
		}
	}
}

// ServerAddress returns a loopback address for a server of the connection manager. Its
// UDP port is 4791, which clients use.
func ServerAddress(t *testing.T) string {
	t.Helper()
	host, _, found := strings.Cut(LoopbackDevice(t), ":")
	if found {
		return "127.0.0.1"
	}
	return host
}

// CheckFree checks that the device and the TCP port can be opened again.
func CheckFree(t *testing.T, dev, port string) {
	t.Helper()
	d, err := verbs.Open(dev, verbs.Config{})
	if err != nil {
		t.Error(err)
	} else {
		d.Close()
	}
	l, err := net.Listen("tcp", ":"+port)
	if err != nil {
		t.Error(err)
	} else {
		l.Close()
	}
}

// SecretFile writes a secret to a file.
func SecretFile(t *testing.T, secret string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "psk")
	if err := os.WriteFile(file, []byte(secret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// NeedPrograms skips a test if a program is missing, or the library of softrdma exec.
func NeedPrograms(t *testing.T, names ...string) {
	t.Helper()
	if _, err := preload.Library(); err != nil {
		testenv.Lacks(t, "a build with the preloaded library")
	}
	testenv.Programs(t, names...)
}
