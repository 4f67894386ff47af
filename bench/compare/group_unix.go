//go:build unix

package compare

import (
	"os"
	"syscall"
)

// ownGroup makes a command the leader of a process group.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// endGroup asks the process group that a process leads to end. softrdma removes its
// files then.
func endGroup(p *os.Process) error { return syscall.Kill(-p.Pid, syscall.SIGTERM) }

// killGroup kills the process group that a process leads.
func killGroup(p *os.Process) error { return syscall.Kill(-p.Pid, syscall.SIGKILL) }
