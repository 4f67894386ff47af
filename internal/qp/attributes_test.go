package qp

import (
	"errors"
	"net/netip"
	"reflect"
	"testing"
)

func TestMaskStringNamesEveryBit(t *testing.T) {
	for _, c := range []struct {
		m    Mask
		want string
	}{
		{0, "none"},
		{MaskState, "IBV_QP_STATE"},
		{MaskDestQPN, "IBV_QP_DEST_QPN"},
		{MaskAccess | MaskMaxRdAtomic, "IBV_QP_ACCESS_FLAGS|IBV_QP_MAX_QP_RD_ATOMIC"},
		{1<<25 | 1<<31 | MaskCap, "IBV_QP_CAP|0x82000000"},
	} {
		if got := c.m.String(); got != c.want {
			t.Errorf("%#x: found %s, want %s", uint32(c.m), got, c.want)
		}
	}
}

// full has a value other than zero in each field that Apply may set.
func full() Attr {
	return Attr{
		State: RTS, PathMTU: 4096, QKey: 1, RQPSN: 2, SQPSN: 3, DestQPN: 4, Access: RemoteRead,
		Path:      Path{Dst: netip.MustParseAddrPort("192.0.2.1:4791"), FlowLabel: 5},
		PKeyIndex: 6, Port: 7, MaxRdAtomic: 8, MaxDestRdAtomic: 9, MinRNRTimer: 10, Timeout: 11, RetryCnt: 12,
		RNRRetry: 13, EnSQDNotify: true,
	}
}

func TestApplySetsOnlyTheNamedField(t *testing.T) {
	fields := map[Mask]string{
		MaskState: "State", MaskPathMTU: "PathMTU", MaskQKey: "QKey", MaskRQPSN: "RQPSN", MaskSQPSN: "SQPSN",
		MaskDestQPN: "DestQPN", MaskAccess: "Access", MaskAV: "Path", MaskPKeyIndex: "PKeyIndex", MaskPort: "Port",
		MaskMaxRdAtomic: "MaxRdAtomic", MaskMaxDestRdAtomic: "MaxDestRdAtomic", MaskMinRNRTimer: "MinRNRTimer",
		MaskTimeout: "Timeout", MaskRetryCnt: "RetryCnt", MaskRNRRetry: "RNRRetry", MaskEnSQDAsyncNotify: "EnSQDNotify",
	}
	src := full()
	for i := range 32 {
		var got, want Attr
		got.Apply(1<<i, &src)
		if name := fields[1<<i]; name != "" {
			reflect.ValueOf(&want).Elem().FieldByName(name).Set(reflect.ValueOf(src).FieldByName(name))
		}
		if got != want {
			t.Errorf("%v: found %+v, want %+v", Mask(1<<i), got, want)
		}
	}
	var all Attr
	all.Apply(^Mask(0), &src)
	if all != src {
		t.Errorf("all attributes: found %+v, want %+v", all, src)
	}
}

func TestValidatePKeyNamesTheTable(t *testing.T) {
	for _, c := range []struct {
		entries int
		index   uint16
		want    string // empty if in range
	}{
		{1, 0, ""},
		{1, 1, "IBV_QP_PKEY_INDEX: expected 0, found 1"},
		{32, 31, ""},
		{32, 32, "IBV_QP_PKEY_INDEX: expected 0..31, found 32"},
	} {
		err := ValidatePKey(MaskPKeyIndex, &Attr{PKeyIndex: c.index}, c.entries)
		if c.want == "" && err != nil || c.want != "" && (err == nil || err.Error() != c.want) {
			t.Errorf("found %v, want %q", err, c.want)
		}
	}
	if err := ValidatePKey(MaskPort, &Attr{PKeyIndex: 1}, 1); err != nil {
		t.Errorf("an attribute that is not set: %v", err)
	}
}

func TestValidateRanges(t *testing.T) {
	path := func(p Path) func(*Attr) { return func(a *Attr) { a.Path = p } }
	for _, c := range []struct {
		mask Mask
		set  func(*Attr)
		want string // empty if in range
	}{
		{MaskPathMTU, func(a *Attr) { a.PathMTU = 256 }, ""},
		{MaskPathMTU, func(a *Attr) { a.PathMTU = 4096 }, ""},
		{MaskPathMTU, func(a *Attr) { a.PathMTU = 1500 }, "IBV_QP_PATH_MTU: expected 256, 512, 1024, 2048 or 4096 bytes, found 1500"},
		{MaskPathMTU, func(a *Attr) { a.PathMTU = 8192 }, "IBV_QP_PATH_MTU: expected 256, 512, 1024, 2048 or 4096 bytes, found 8192"},
		{MaskPathMTU, func(a *Attr) {}, "IBV_QP_PATH_MTU: expected 256, 512, 1024, 2048 or 4096 bytes, found 0"},
		{MaskDestQPN, func(a *Attr) { a.DestQPN = 0xffffff }, ""},
		{MaskDestQPN, func(a *Attr) { a.DestQPN = 1 << 24 }, "IBV_QP_DEST_QPN: expected 0..16777215, found 16777216"},
		{MaskRQPSN, func(a *Attr) { a.RQPSN = 1 << 24 }, "IBV_QP_RQ_PSN: expected 0..16777215, found 16777216"},
		{MaskSQPSN, func(a *Attr) { a.SQPSN = 0xffffff }, ""},
		{MaskSQPSN, func(a *Attr) { a.SQPSN = 1 << 31 }, "IBV_QP_SQ_PSN: expected 0..16777215, found 2147483648"},
		{MaskRetryCnt, func(a *Attr) { a.RetryCnt = 7 }, ""},
		{MaskRetryCnt, func(a *Attr) { a.RetryCnt = 8 }, "IBV_QP_RETRY_CNT: expected 0..7, found 8"},
		{MaskRNRRetry, func(a *Attr) { a.RNRRetry = 8 }, "IBV_QP_RNR_RETRY: expected 0..7, found 8"},
		{MaskTimeout, func(a *Attr) { a.Timeout = 31 }, ""},
		{MaskTimeout, func(a *Attr) { a.Timeout = 32 }, "IBV_QP_TIMEOUT: expected 0..31, found 32"},
		{MaskMinRNRTimer, func(a *Attr) { a.MinRNRTimer = 32 }, "IBV_QP_MIN_RNR_TIMER: expected 0..31, found 32"},
		{MaskPort, func(a *Attr) { a.Port = 1 }, ""},
		{MaskPort, func(a *Attr) {}, "IBV_QP_PORT: expected 1, found 0"},
		{MaskPort, func(a *Attr) { a.Port = 2 }, "IBV_QP_PORT: expected 1, found 2"},
		{MaskAV, path(Path{Dst: LIDEndpoint(8), PathBits: 127, ServiceLevel: 15}), ""},
		{MaskAV, path(Path{Dst: LIDEndpoint(8), PathBits: 128}), "IBV_QP_AV: expected source path bits of 0..127, found 128"},
		{MaskAV, path(Path{Dst: LIDEndpoint(8), ServiceLevel: 16}), "IBV_QP_AV: expected a service level of 0..15, found 16"},
		{MaskAV, path(Path{Dst: netip.MustParseAddrPort("[2001:db8::1]:0")}), ""},
		{MaskAV, path(Path{}), "IBV_QP_AV: expected the peer's IP address, found invalid IP"},
		{MaskAV, path(Path{Dst: netip.MustParseAddrPort("0.0.0.0:4791")}), "IBV_QP_AV: expected the peer's IP address, found 0.0.0.0"},
		{MaskAV, path(Path{Dst: netip.MustParseAddrPort("192.0.2.1:1"), FlowLabel: 1 << 20}),
			"IBV_QP_AV: expected a flow label of 0..1048575, found 1048576"},
		{MaskAltPath, func(a *Attr) {}, "IBV_QP_ALT_PATH: expected no alternate path, found one"},
	} {
		var a Attr
		c.set(&a)
		err := Validate(c.mask, &a)
		if c.want == "" && err != nil || c.want != "" && (err == nil || err.Error() != c.want) {
			t.Errorf("found %v, want %q", err, c.want)
		}
		if err != nil {
			var e *RangeError
			if !errors.As(err, &e) || e.Attr != c.mask {
				t.Errorf("%v: no *RangeError for %v", err, c.mask)
			}
			if got := errors.Is(err, errors.ErrUnsupported); got != (c.mask == MaskAltPath) {
				t.Errorf("%v: unsupported is %v", err, got)
			}
			if err := Validate(^c.mask&^MaskAltPath&^(MaskPathMTU|MaskPort|MaskAV), &a); err != nil {
				t.Errorf("attribute not named in the mask was checked: %v", err)
			}
		}
	}
}
