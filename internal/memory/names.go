package memory

import "softrdma/internal/reason"

func init() {
	reason.Name(reason.NumKeyState, func(n uint64) string {
		switch n {
		case 0:
			return "an invalid key"
		case 1:
			return "a valid key"
		}
		return ""
	})
}
