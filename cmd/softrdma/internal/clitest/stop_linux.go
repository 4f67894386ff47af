package clitest

import "syscall"

// Suspend stops a process as Ctrl-Z does; it goes on at the end of the test, to be ended.
func (p *Process) Suspend() {
	p.t.Helper()
	if err := p.Cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { _ = p.Cmd.Process.Signal(syscall.SIGCONT) })
}
