//go:build !linux

package demo

import "syscall"

// killWithParent does nothing where the kernel does not support it. The child ends when
// its standard input does.
func killWithParent() *syscall.SysProcAttr { return nil }
