package demo

import "syscall"

// killWithParent makes the kernel end the child when this process is killed.
func killWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
