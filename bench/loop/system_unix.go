//go:build unix

package loop

import "syscall"

func readNow(fd uintptr, b []byte) (int, error) { return syscall.Read(int(fd), b) }
