package explain

import (
	"fmt"

	"softrdma/internal/queue"
)

// VendorError is the kind of the numbers that adapters add to a completion's status:
// vendor_err of ibv_wc, perftest's "syndrom", UCX's "vend".
const VendorError Kind = "vendor error"

// vendorStatuses are the vendor errors of mlx4 and mlx5 that people report, with the status that
// they come with.
var vendorStatuses = map[uint64]queue.Status{
	0x51: queue.LocProtErr, 0x52: queue.LocProtErr, 0x53: queue.LocProtErr,
	0x81: queue.RetryExcErr, 0x87: queue.RNRRetryExcErr, 0x88: queue.RemAccessErr, 0x8a: queue.RemInvReqErr,
	0xf4: queue.WRFlushErr, 0xf5: queue.WRFlushErr, 0xf9: queue.WRFlushErr,
}

// vendorError returns the entry for a vendor error, known or not.
func vendorError(n uint64) Entry {
	e := Entry{Kind: VendorError, Name: fmt.Sprintf("VENDOR_ERR_%#02x", n), Number: int(n),
		Meaning: "The adapter's own number beside the completion's status. It has no common meaning.",
		Cause:   "The status of the same completion says what is wrong. softrdma puts the number of its reason here.",
		Look:    "The status in the same line or completion.", Remedy: "Look up the status; for the number itself, ask the adapter's vendor.",
		Clause: "libibverbs, ibv_poll_cq(3)"}
	if s, ok := vendorStatuses[n]; ok {
		e.Meaning = fmt.Sprintf("NVIDIA's adapters (mlx4, mlx5) report this number together with %v.", s)
		e.See = []string{s.String()}
	}
	return e
}

// cqeStatuses are the statuses that mlx5 means by the syndrome of a completion's error, which
// UCX and the kernel print.
var cqeStatuses = map[uint64]queue.Status{
	0x01: queue.LocLenErr, 0x02: queue.LocQPOpErr, 0x04: queue.LocProtErr, 0x05: queue.WRFlushErr, 0x06: queue.MWBindErr,
	0x10: queue.BadRespErr, 0x11: queue.LocAccessErr, 0x12: queue.RemInvReqErr, 0x13: queue.RemAccessErr, 0x14: queue.RemOpErr,
	0x15: queue.RetryExcErr, 0x16: queue.RNRRetryExcErr, 0x22: queue.RemAbortErr,
}
