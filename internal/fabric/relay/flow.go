package relay

import "softrdma/internal/link/fabric"

// control is the lane of messages, behind those of the service levels. A longest message is less than the
// window of a lane.
const (
	control = fabric.Levels
	lanes   = fabric.Levels + 1
)
