package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"
)

// commandEnv makes the test program be the command.
const commandEnv = "SOFTRDMA_BENCH_TEST_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(commandEnv) != "" {
		main()
		os.Exit(0)
	}
	code := m.Run()
	if built.remove != nil {
		built.remove()
	}
	os.Exit(code)
}

// built is the command, which the first test that needs it builds.
var built struct {
	once   sync.Once
	file   string
	remove func()
	err    error
}

// softrdma returns the file of the command.
func softrdma(t *testing.T) string {
	t.Helper()
	built.once.Do(func() { built.file, built.remove, built.err = buildSoftrdma(t.Context()) })
	if built.err != nil {
		t.Fatal(built.err)
	}
	return built.file
}

// testLimit is how long a process of a test may take.
const testLimit = 2 * time.Minute

// start starts bench. Wait for what it prints with output.
func start(t *testing.T, args ...string) *process {
	t.Helper()
	return startProgram(t, append([]string{os.Args[0]}, args...)...)
}

// A process is a program that a test started.
type process struct {
	t      *testing.T
	cmd    *exec.Cmd
	stdout *os.File
	stderr strings.Builder
}

func startProgram(t *testing.T, argv ...string) *process {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testLimit)
	p := &process{t: t, cmd: exec.CommandContext(ctx, argv[0], argv[1:]...)}
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p.stdout, p.cmd.Stdout, p.cmd.Stderr = out, in, &p.stderr
	p.cmd.Env = append(os.Environ(), commandEnv+"=1")
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	in.Close()
	t.Cleanup(func() {
		cancel() // kills what a failed test left
		p.cmd.Wait()
		out.Close()
	})
	return p
}

// line returns the next line that the process prints.
func (p *process) line() string {
	p.t.Helper()
	var line []byte
	for b := make([]byte, 1); ; {
		if _, err := p.stdout.Read(b); err != nil {
			p.t.Fatalf("%v ended after %q: %v", p.cmd.Args, line, err)
		}
		if b[0] == '\n' {
			return string(line)
		}
		line = append(line, b[0])
	}
}

// succeeds returns the process's next line of output when it has ended.
func (p *process) succeeds() string {
	p.t.Helper()
	line := p.line()
	p.ends()
	return line
}

// ends waits until the process has ended without an error.
func (p *process) ends() {
	p.t.Helper()
	if err := p.cmd.Wait(); err != nil {
		p.t.Fatalf("%v: %v: %s", p.cmd.Args, err, p.stderr.String())
	}
}

// fails waits until the process fails, and checks what it says.
func (p *process) fails(want string) {
	p.t.Helper()
	if err := p.cmd.Wait(); err == nil || !strings.Contains(p.stderr.String(), want) {
		p.t.Errorf("%v: %v, said %q, expected an error with %q", p.cmd.Args, err, p.stderr.String(), want)
	}
}

// loopbackDevice returns a loopback address that is probably not in use.
func loopbackDevice() string {
	return fmt.Sprintf("127.%d.%d.%d", 1+rand.IntN(254), rand.IntN(256), 1+rand.IntN(254))
}
