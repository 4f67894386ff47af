//go:build linux

package device

import (
	"errors"
	"net/netip"
	"syscall"
	"testing"

	"softrdma/internal/qp"
	"softrdma/internal/uverbs/uapi"
	"softrdma/verbs"
)

func TestPath(t *testing.T) {
	v, err := verbs.Open("127.14.10.1:4793", verbs.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	d := New(v, nil)
	at := func(dgid string, set func(h *uapi.AHAttr)) *uapi.AHAttr {
		h := uapi.AHAttr{IsGlobal: 1, PortNum: 1, GRH: uapi.GlobalRoute{DGID: netip.MustParseAddr(dgid).As16()}}
		if set != nil {
			set(&h)
		}
		return &h
	}
	for _, c := range []struct {
		name string
		h    *uapi.AHAttr
		port uint16
		want qp.Path
	}{
		{"peer without a port", at("10.0.0.1", nil), 0, qp.Path{Dst: netip.MustParseAddrPort("10.0.0.1:4793")}},
		{"peer with a port", at("10.0.0.1", nil), 4799, qp.Path{Dst: netip.MustParseAddrPort("10.0.0.1:4799")}},
		{"the device itself", at("127.14.10.1", nil), 0, qp.Path{Dst: netip.MustParseAddrPort("127.14.10.1:4793")}},
		{
			"service level", at("10.0.0.1", func(h *uapi.AHAttr) {
				h.SL, h.GRH.TrafficClass, h.GRH.HopLimit, h.GRH.FlowLabel = 5, 0xb8, 3, 0xfff00001
			}), 0,
			qp.Path{Dst: netip.MustParseAddrPort("10.0.0.1:4793"), ServiceLevel: 5, TrafficClass: 0xb8, HopLimit: 3, FlowLabel: 1},
		},
	} {
		if got, err := d.Path(c.h, c.port); got != c.want || err != nil {
			t.Errorf("%s: expected %+v, found %+v, error %v", c.name, c.want, got, err)
		}
	}
	for _, c := range []struct {
		name string
		h    *uapi.AHAttr
		want syscall.Errno
	}{
		{"no global route", at("10.0.0.1", func(h *uapi.AHAttr) { h.IsGlobal = 0 }), syscall.EINVAL},
		{"port 2", at("10.0.0.1", func(h *uapi.AHAttr) { h.PortNum = 2 }), syscall.EINVAL},
		{"SGID index 1", at("10.0.0.1", func(h *uapi.AHAttr) { h.GRH.SGIDIndex = 1 }), syscall.EINVAL},
		{"no DGID", at("::", nil), syscall.ENETUNREACH},
		{"IPv6", at("2001:db8::1", nil), syscall.ENETUNREACH},
	} {
		if _, err := d.Path(c.h, 0); !errors.Is(err, c.want) {
			t.Errorf("%s: expected %v, found %v", c.name, c.want, err)
		}
	}
}
