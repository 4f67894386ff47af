package packet

import (
	"os"

	"golang.org/x/sys/unix"

	"softrdma/internal/inherit"
)

// CopyClaim returns a descriptor that keeps Config.Claim in use, for a program that shares the
// endpoint. The caller closes it.
func (l *Link) CopyClaim() (int, error) {
	if !l.Enter() {
		return -1, errClosed
	}
	defer l.Leave()
	fd, err := unix.FcntlInt(uintptr(l.claim), unix.F_DUPFD_CLOEXEC, 0)
	return fd, os.NewSyscallError("fcntl F_DUPFD_CLOEXEC", err)
}

// OpenSlot opens a link for one of the programs that share an endpoint, with a copy of its owner's
// claim, which then belongs to the link. The program opens the socket itself and so needs
// CAP_NET_RAW: the owner lends it no privilege.
func OpenSlot(claim int, cfg Config) (*Link, error) {
	cfg.Claim = ""
	links, err := Open(cfg, 1)
	if err != nil {
		_ = unix.Close(claim)
		return nil, err
	}
	l := links[0]
	l.claim = claim
	inherit.Add(l.fd, l.claim)
	return l, nil
}
