package main

import "syscall"

// dieWithParent makes the kernel end the child when this process is killed.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
