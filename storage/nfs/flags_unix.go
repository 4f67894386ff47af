//go:build unix && !linux

package nfs

import "syscall"

// openFlags keep an open from waiting, should the file have become a FIFO.
const openFlags = syscall.O_NONBLOCK
