package iwarp

import "softrdma/internal/reason"

var stateNames = [...]string{
	idle: "idle", awaitReply: "waiting for the reply", awaitRequest: "waiting for the request", requested: "requested",
	operating: "operating", ending: "ending", dead: "closed",
}

func init() {
	reason.Name(reason.NumStreamState, func(n uint64) string {
		if n < uint64(len(stateNames)) {
			return stateNames[n]
		}
		return ""
	})
}
