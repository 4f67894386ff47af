package cli

import "fmt"

// StateName returns the name of a port state as ibv_devinfo prints it.
func StateName(up bool) string {
	if up {
		return "ACTIVE"
	}
	return "DOWN"
}

// MTUName formats an active MTU. It is 0 if the interface MTU is too small for RDMA.
func MTUName(mtu int) string {
	if mtu == 0 {
		return "too small"
	}
	return fmt.Sprint(mtu)
}
