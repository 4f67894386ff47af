//go:build !linux

package demo

import "syscall"

// killWithParent has nothing to add where the kernel does not offer it: the
// child ends when its standard input does.
func killWithParent() *syscall.SysProcAttr { return nil }
