//go:build interop && linux

package exec

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"syscall"
	"testing"

	"softrdma/cmd/softrdma/internal/clitest"
)

// A session is a shell under softrdma exec, which runs a command at a time.
type session struct {
	t   *testing.T
	in  io.WriteCloser
	out *bufio.Reader
}

// startSession starts a shell under softrdma exec with flags.
func startSession(t *testing.T, flags ...string) *session {
	t.Helper()
	p := clitest.Prepare(t, append(append([]string{"exec"}, flags...), "--", "sh")...)
	p.Cmd.Stdout = nil
	in, err := p.Cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := p.Cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.Cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p.Start()
	t.Cleanup(func() { _ = syscall.Kill(-p.Cmd.Process.Pid, syscall.SIGKILL) }) // with what the shell has started
	return &session{t, in, bufio.NewReader(out)}
}

// run runs a command and returns its output.
func (s *session) run(command string) string {
	s.t.Helper()
	fmt.Fprintf(s.in, "( %s\n) </dev/null 2>&1; echo; echo ended $?\n", command)
	var out strings.Builder
	for {
		line, err := s.out.ReadString('\n')
		code, last := strings.CutPrefix(line, "ended ")
		switch {
		case err != nil:
			s.t.Fatalf("%s: %v\n%s%s", command, err, &out, line)
		case last && code != "0\n":
			s.t.Fatalf("%s: code %s%s", command, code, &out)
		case last:
			return strings.TrimSuffix(out.String(), "\n")
		}
		out.WriteString(line)
	}
}
