package compare

import (
	"os"
	"syscall"
)

func ownGroup() *syscall.SysProcAttr { return nil }

func endGroup(p *os.Process) error { return p.Kill() }

// killGroup kills the process. Windows has no process groups.
func killGroup(p *os.Process) error { return p.Kill() }
