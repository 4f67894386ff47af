package nfs

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
)

// A status is the result of a procedure (nfsstat3, RFC 1813 2.6).
type status uint32

const (
	errPermission   status = 1
	errNoEntry      status = 2
	errIO           status = 5
	errNoDevice     status = 6
	errAccess       status = 13
	errExists       status = 17
	errCrossDevice  status = 18
	errNotDirectory status = 20
	errIsDirectory  status = 21
	errInvalid      status = 22
	errTooBig       status = 27
	errNoSpace      status = 28
	errReadOnly     status = 30
	errManyLinks    status = 31
	errNameTooLong  status = 63
	errNotEmpty     status = 66
	errQuota        status = 69
	errStale        status = 70
	errBadHandle    status = 10001
	errNotSync      status = 10002
	errBadCookie    status = 10003
	errNotSupported status = 10004
	errTooSmall     status = 10005
	errBadType      status = 10007
	errTryLater     status = 10008 // NFS3ERR_JUKEBOX
)

// Error implements error.
func (s status) Error() string { return fmt.Sprintf("NFS status %d", uint32(s)) }

// errArguments says that arguments are not valid: RPC itself answers that.
var errArguments = errors.New("arguments of the call are not valid")

// statuses are the statuses of errors of the system.
var statuses = map[syscall.Errno]status{
	syscall.EPERM: errPermission, syscall.ENOENT: errNoEntry, syscall.ENXIO: errNoDevice, syscall.EACCES: errAccess, syscall.EEXIST: errExists,
	syscall.EXDEV: errCrossDevice, syscall.ENOTDIR: errNotDirectory, syscall.EISDIR: errIsDirectory, syscall.EINVAL: errInvalid,
	syscall.EFBIG: errTooBig, syscall.ENOSPC: errNoSpace, syscall.EROFS: errReadOnly, syscall.EMLINK: errManyLinks,
	syscall.ENAMETOOLONG: errNameTooLong, syscall.ENOTEMPTY: errNotEmpty, syscall.EDQUOT: errQuota, syscall.ESTALE: errStale,
	syscall.ELOOP: errInvalid, syscall.EOPNOTSUPP: errNotSupported, syscall.EMFILE: errTryLater, syscall.ENFILE: errTryLater, syscall.ENOMEM: errTryLater,
}

// statusOf returns the status of an error.
func statusOf(err error) status {
	var s status
	if errors.As(err, &s) {
		return s
	}
	var number syscall.Errno
	if errors.As(err, &number) {
		if s, ok := statuses[number]; ok {
			return s
		}
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return errNoEntry
	case errors.Is(err, fs.ErrExist):
		return errExists
	case errors.Is(err, fs.ErrPermission):
		return errAccess
	case errors.Is(err, fs.ErrInvalid):
		return errInvalid
	}
	return errIO
}
