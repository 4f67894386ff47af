package cli

import "syscall"

// KillWithParent makes the kernel end the child when this process is killed.
func KillWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
