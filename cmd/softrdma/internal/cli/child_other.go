//go:build !linux

package cli

import "syscall"

// KillWithParent does nothing where the kernel does not support it. The child ends when
// its standard input does.
func KillWithParent() *syscall.SysProcAttr { return nil }
