//go:build linux

package device

import (
	"errors"
	"fmt"
	"net/netip"
	"syscall"
	"testing"

	"softrdma/internal/qp"
	"softrdma/internal/reason"
	"softrdma/internal/uverbs/client"
	"softrdma/internal/wire/uapi"
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
		want qp.Path
	}{
		{"peer", at("10.0.0.1", nil), qp.Path{Dst: netip.MustParseAddrPort("10.0.0.1:4793"), HopLimit: 64}},
		{"the device itself", at("127.14.10.1", nil), qp.Path{Dst: netip.MustParseAddrPort("127.14.10.1:4793"), HopLimit: 64}},
		{
			"service level", at("10.0.0.1", func(h *uapi.AHAttr) {
				h.SL, h.GRH.TrafficClass, h.GRH.HopLimit, h.GRH.FlowLabel = 5, 0xb8, 3, 0xfff00001
			}),
			qp.Path{Dst: netip.MustParseAddrPort("10.0.0.1:4793"), ServiceLevel: 5, TrafficClass: 0xb8, HopLimit: 64, FlowLabel: 1},
		},
		{
			"SGID index 3", at("10.0.0.1", func(h *uapi.AHAttr) { h.GRH.SGIDIndex = 3 }),
			qp.Path{Dst: netip.MustParseAddrPort("10.0.0.1:4793"), SGIDIndex: 3, HopLimit: 64},
		},
		{
			"group", at("224.1.2.3", func(h *uapi.AHAttr) { h.GRH.HopLimit = 3 }),
			qp.Path{Dst: netip.MustParseAddrPort("224.1.2.3:4793"), HopLimit: 3},
		},
	} {
		if got, err := d.Path(c.h); got != c.want || err != nil {
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
		{"SGID index 4", at("10.0.0.1", func(h *uapi.AHAttr) { h.GRH.SGIDIndex = 4 }), syscall.EINVAL},
		{"no DGID", at("::", nil), syscall.ENETUNREACH},
		{"IPv6", at("2001:db8::1", nil), syscall.ENETUNREACH},
	} {
		if _, err := d.Path(c.h); !errors.Is(err, c.want) {
			t.Errorf("%s: expected %v, found %v", c.name, c.want, err)
		}
	}
}

// The table has the device's address at the indices that programs ask for, and nothing after them.
func TestGIDTable(t *testing.T) {
	v, err := verbs.Open("127.14.10.2:4793", verbs.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	d := New(v, nil)
	p, err := d.Port(1)
	if err != nil || p.GIDTblLen != 8 {
		t.Fatalf("%d entries, error %v", p.GIDTblLen, err)
	}
	files := make(map[string]string)
	d.AddSysfs(files)
	for i := range p.GIDTblLen {
		gid, ndev := "0000:0000:0000:0000:0000:0000:0000:0000", ""
		kind := "IB/RoCE v1"
		if i < qp.RoCEGIDs {
			gid, kind, ndev = "0000:0000:0000:0000:0000:ffff:7f0e:0a02", "RoCE v2", "lo"
		}
		for name, want := range map[string]string{"gids/": gid, "gid_attrs/types/": kind, "gid_attrs/ndevs/": ndev} {
			if got := files[fmt.Sprint("sys/class/infiniband/rxe0/ports/1/", name, i)]; got != want {
				t.Errorf("%s%d: found %q, expected %q", name, i, got, want)
			}
		}
	}
	_, err = d.Path(&uapi.AHAttr{IsGlobal: 1, PortNum: 1, GRH: uapi.GlobalRoute{DGID: v.GID(), SGIDIndex: 5}})
	refused := (*client.Refusal)(nil)
	if !errors.As(err, &refused) || refused.Detail != (reason.Detail{Reason: reason.GIDIndex, Expected: 3, Found: 5}) {
		t.Errorf("index 5: %v", err)
	}
}
