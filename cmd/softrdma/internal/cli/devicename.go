package cli

import "fmt"

func StateName(up bool) string {
	if up {
		return "ACTIVE"
	}
	return "DOWN"
}

func MTUName(mtu int) string {
	if mtu == 0 {
		return "too small"
	}
	return fmt.Sprint(mtu)
}
