package ud

import "softrdma/internal/reason"

func init() {
	reason.Name(reason.NumFamily, func(n uint64) string {
		switch n {
		case inet:
			return "IPv4"
		case inet6:
			return "IPv6"
		}
		return ""
	})
}
