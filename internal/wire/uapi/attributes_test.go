package uapi

import (
	"net/netip"
	"testing"

	"softrdma/internal/qp"
)

func TestAttributesSurviveTheCommands(t *testing.T) {
	want := qp.Attr{
		State: qp.RTR, CurState: qp.Init, PathMTU: 2048, QKey: 1 << 31, RQPSN: 0xabcdef, SQPSN: 0x123456, DestQPN: 0xfedcba,
		Access: qp.LocalWrite | qp.RemoteAtomic, PKeyIndex: 1, Port: 2, Timeout: 3, RetryCnt: 4, RNRRetry: 5, MinRNRTimer: 6,
		MaxRdAtomic: 7, MaxDestRdAtomic: 8,
	}
	q := QPAttrsOf(&want)
	if got := q.Attr(); got != want {
		t.Errorf("MODIFY_QP: expected %+v, found %+v", want, got)
	}
	want.Path = qp.Path{Dst: netip.MustParseAddrPort("10.0.0.1:4791"), SGIDIndex: 1, FlowLabel: 0xabcde, TrafficClass: 0xb8, HopLimit: 9, ServiceLevel: 15}
	r := QPAttrOf(qp.MaskState|qp.MaskAV, &want)
	if mask, got := r.Attr(4791); got != want || mask != qp.MaskState|qp.MaskAV {
		t.Errorf("INIT_QP_ATTR: expected %+v, found %v %+v", want, mask, got)
	}
}

func TestPathSurvivesTheCommands(t *testing.T) {
	for _, addr := range []string{"10.0.0.1", "2001:db8::1"} {
		want := qp.Path{Dst: netip.AddrPortFrom(netip.MustParseAddr(addr), 4791), SGIDIndex: 1, FlowLabel: 0xabcde, TrafficClass: 0xb8, HopLimit: 9, ServiceLevel: 15}
		h := AHOf(&want)
		d := h.Dest()
		if got := d.AH(); got != h {
			t.Errorf("%s: address handle %+v, after MODIFY_QP %+v", addr, h, got)
		}
		if got := h.Path(4791); got != want {
			t.Errorf("%s: expected %+v, found %+v", addr, want, got)
		}
		h.SL = 0xf5
		if got := h.Path(4791).ServiceLevel; got != 5 {
			t.Errorf("%s: service level %d of the byte 0xf5, expected 5", addr, got)
		}
	}
}

func TestMTUNumbers(t *testing.T) {
	for number, bytes := range []int{0, 256, 512, 1024, 2048, 4096, 0} {
		if got := MTU(uint8(number)); got != bytes {
			t.Errorf("MTU %d: expected %d bytes, found %d", number, bytes, got)
		}
		if got := MTUNumber(bytes); bytes != 0 && int(got) != number {
			t.Errorf("%d bytes: expected MTU %d, found %d", bytes, number, got)
		}
	}
	for _, n := range []int{0, -1, 128, 1500, 8192} {
		if got := MTUNumber(n); got != 0 {
			t.Errorf("%d bytes: found MTU %d, expected none", n, got)
		}
	}
}
