package verbs_test

import (
	"strings"
	"testing"

	"softrdma/internal/reason"
	_ "softrdma/internal/uverbs"
	_ "softrdma/rdmacm"
)

// A program that contains all packages that own such numbers prints names in a detail instead
// of numbers.
func TestDetailNamesItsNumbers(t *testing.T) {
	for _, c := range []struct {
		d    reason.Detail
		want string
	}{
		{reason.Detail{Reason: reason.LocalQPState, Expected: 3, Found: 0}, "expected RTS, found RESET"},
		{reason.Detail{Reason: reason.PacketTransport, Expected: 0, Found: 3}, "expected RC, found UD"},
		{reason.Detail{Reason: reason.OpcodeSequence, Expected: 6, Found: 4}, "after RC RDMA WRITE First (0x06) came RC SEND Only (0x04)"},
		{reason.Detail{Reason: reason.KeyInvalid, Expected: 1, Found: 0}, "expected a valid key, found an invalid key"},
		{reason.Detail{Reason: reason.KeyAccess, Expected: 2, Found: 1}, "needs REMOTE_WRITE, has LOCAL_WRITE"},
		{reason.Detail{Reason: reason.LocalOpcode, Expected: 4, Found: 0}, "type UD, operation IBV_WR_RDMA_WRITE"},
		{reason.Detail{Reason: reason.Flushed, Expected: uint64(reason.RetryExceeded), Found: 12}, "first error RETRY_EXCEEDED, status IBV_WC_RETRY_EXC_ERR"},
		{reason.Detail{Reason: reason.CMRejected, Expected: 2, Found: 28}, "in state REQ sent, reason 28 (CONSUMER_REJECT)"},
		{reason.Detail{Reason: reason.CMState, Expected: 10, Found: 13}, "expected established, found time wait"},
		{reason.Detail{Reason: reason.CMDuplicate, Expected: 0x10, Found: 3}, "REQ, in state REQ received"},
		{reason.Detail{Reason: reason.CMSIDRRefused, Expected: 0, Found: 1}, "found 1 (service ID not supported)"},
		{reason.Detail{Reason: reason.MPAState, Expected: 0, Found: 4}, "expected idle, found operating"},
		{reason.Detail{Reason: reason.TermStream, Expected: 1, Found: 0x2002}, "0x2002 (MPA: wrong CRC)"},
		{reason.Detail{Reason: reason.AddressUnreachable, Expected: 2, Found: 10}, "expected address family IPv4, found IPv6"},
		{reason.Detail{Reason: reason.NAKReserved, Expected: 1, Found: 0x7f}, "syndrome 0x7f (reserved)"},
		{reason.Detail{Reason: reason.CongestionIgnored, Expected: 2, Found: 5}, "control dcqcn"},
		{reason.Detail{Reason: reason.CMTransport, Expected: 1, Found: 2}, "expected at most UC, found RD"},
		{reason.Detail{Reason: reason.RDMAPSequence, Expected: 3, Found: 0}, "after Send (0x3) came RDMA Write (0x0)"},
		{reason.Detail{Reason: reason.ConnectRefused, Expected: 7471, Found: 111}, "errno 111 (connection refused)"},
	} {
		if got := c.d.String(); !strings.Contains(got, c.want) {
			t.Errorf("%v: found %q, expected %q in it", c.d.Reason, got, c.want)
		}
	}
}

// FuzzPeerDetail prints what a peer may say, with any numbers.
func FuzzPeerDetail(f *testing.F) {
	for r := range reason.All() {
		f.Add(uint32(r), uint64(1)<<63, ^uint64(0))
	}
	f.Add(uint32(0), uint64(0), uint64(0))
	f.Add(^uint32(0), uint64(1), uint64(2))
	f.Fuzz(func(t *testing.T, number uint32, expected, found uint64) {
		d := reason.Detail{Reason: reason.Reason(number), Expected: expected, Found: found}
		if s := d.Said(); s == "" || len(s) > 512 || strings.Contains(s, "%!") {
			t.Errorf("reason %d, %d, %d: %q", number, expected, found, s)
		}
	})
}
