package testenv

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"
)

// Main runs a package's tests. In a process of Start it runs the role whose variable is set
// instead, with the variable's value.
func Main(m *testing.M, roles map[string]func(value string) error) {
	for variable, role := range roles {
		value := os.Getenv(variable)
		if value == "" {
			continue
		}
		if err := role(value); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// A Process is another run of the test program, in a role of Main.
type Process struct {
	In io.WriteCloser // its standard input

	t    testing.TB
	cmd  *exec.Cmd
	out  *bufio.Reader
	gone bool
}

// Start starts a process in a role, with a value of the role's variable. Its standard error is
// the test's. It is killed when the test ends.
func Start(t testing.TB, variable, value string, environment ...string) *Process {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &Process{t: t, cmd: exec.Command(self)}
	p.cmd.Env = append(append(os.Environ(), variable+"="+value), environment...)
	p.cmd.Stderr = os.Stderr
	if p.In, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.out = bufio.NewReader(out)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	return p
}

// Line returns the next line of the process's standard output, with its newline.
func (p *Process) Line() string {
	p.t.Helper()
	line, err := p.out.ReadString('\n')
	if err != nil {
		p.t.Fatalf("line of a process: %q, %v", line, err)
	}
	return line
}

// Process returns the operating system's process.
func (p *Process) Process() *os.Process { return p.cmd.Process }

// Wait waits until the process ends by itself. Its error is that of exec.Cmd.Wait.
func (p *Process) Wait() error {
	p.gone = true
	return p.cmd.Wait()
}

// Kill kills the process, and waits until it is gone.
func (p *Process) Kill() {
	if !p.gone {
		_ = p.cmd.Process.Kill() // it may have ended
		_ = p.Wait()             // an error because it was killed
	}
}
