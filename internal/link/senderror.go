package link

import (
	"encoding/binary"
	"errors"
	"syscall"

	"softrdma/internal/reason"
)

// SendDetail returns the reason for an error of Packets.Send or of opening a flow, for a batch
// of the given number of bytes.
func SendDetail(err error, bytes int) reason.Detail {
	d := reason.Detail{Reason: reason.SendFailed, Expected: uint64(bytes)}
	var long *MTUError
	if errors.As(err, &long) {
		return reason.Detail{Reason: reason.PathMTU, Expected: uint64(long.MTU), Found: uint64(long.Size)}
	}
	var unknown *NeighbourError
	if errors.As(err, &unknown) {
		b := unknown.Addr.As16()
		return reason.Detail{Reason: reason.SendNeighbour, Expected: binary.BigEndian.Uint64(b[8:])}
	}
	var named *reason.Error
	if errors.As(err, &named) { // a fabric that has gone, for example
		return named.Detail
	}
	var no syscall.Errno
	if errors.As(err, &no) {
		d.Found = uint64(no)
		if no == syscall.ECONNREFUSED {
			d.Reason = reason.SendRefused
		}
	}
	return d
}
