package clitest

import "syscall"

// Suspend stops a process as Ctrl-Z does. It continues at the end of the test, so that
// it can be killed.
func (p *Process) Suspend() {
	p.t.Helper()
	if err := p.Cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { _ = p.Cmd.Process.Signal(syscall.SIGCONT) })
}
