package unreachable

import (
	"fmt"
	"net/netip"
	"syscall"
	"testing"

	"softrdma/internal/link"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
)

// A link without reports of the network reports packets that the host did not send.
func TestPacketsWithoutARouteAreReported(t *testing.T) {
	var r Reader
	dst := netip.MustParseAddrPort("192.0.2.1:4791")
	b := make([]byte, 100)
	p := ib.Packet{BTH: ib.BTH{Opcode: ib.UDSendOnly, DestQPN: 1}}
	p.PutHeaders(b)
	err := fmt.Errorf("send: %w", syscall.ENETUNREACH)
	if !NoRoute(err) || NoRoute(syscall.ENOBUFS) {
		t.Error("errors without a route are not told from others")
	}
	for range budget + 1 {
		r.Unsent(dst, b, err)
	}
	n := 0
	if !r.Pending() {
		t.Error("no report is pending")
	}
	r.Take(0, func(p *link.Report, h *ib.BTH, d reason.Detail) {
		n++
		if p.Dst != dst || h.DestQPN != 1 || d.Reason != reason.SendUnreachable || syscall.Errno(d.Found) != syscall.ENETUNREACH {
			t.Errorf("report about %v: %+v, %v", p.Dst, h, d)
		}
	})
	if n != budget || r.Pending() {
		t.Errorf("%d reports, expected %d", n, budget)
	}
}
