//go:build !linux

package main

import "syscall"

// dieWithParent has nothing to add where the kernel does not offer it: the
// child ends when its standard input does.
func dieWithParent() *syscall.SysProcAttr { return nil }
