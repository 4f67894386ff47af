package msg

import (
	"errors"

	"softrdma/internal/message"
	"softrdma/msg/internal/format"
)

// The errors of addresses. Connect returns them, and Config.Refused gets them at the other end.
var (
	// ErrAddress is matched by errors about bytes that are not the address of a worker.
	ErrAddress = format.ErrAddress
	// ErrVersion is matched by errors about a worker whose protocol has another version.
	ErrVersion = message.ErrVersion
	// ErrStale is matched by errors about the address of a worker that has closed.
	ErrStale = format.ErrStale
	// ErrPath is matched by the error of Connect to a worker none of whose devices has the protocol of
	// one of this worker's devices.
	ErrPath = errors.New("no devices of the same protocol")
)
