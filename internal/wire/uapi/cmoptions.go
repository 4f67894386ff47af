package uapi

// Options of librdmacm, by level.
const (
	CMOptionID = 0
	CMOptionIB = 1

	CMOptionTOS        = 0 // one byte
	CMOptionReuseAddr  = 1
	CMOptionAFOnly     = 2
	CMOptionAckTimeout = 3 // one byte
)
