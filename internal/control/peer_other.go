//go:build !linux

package control

import "net"

// allowed is decided by the permissions of the directory.
func allowed(*net.UnixConn) bool { return true }
