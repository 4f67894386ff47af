package qp

import (
	"errors"
	"fmt"
	"softrdma/internal/reason"
	"strconv"
	"strings"
)

// maskNames are libibverbs' names by bit.
var maskNames = [...]string{
	"IBV_QP_STATE", "IBV_QP_CUR_STATE", "IBV_QP_EN_SQD_ASYNC_NOTIFY", "IBV_QP_ACCESS_FLAGS", "IBV_QP_PKEY_INDEX",
	"IBV_QP_PORT", "IBV_QP_QKEY", "IBV_QP_AV", "IBV_QP_PATH_MTU", "IBV_QP_TIMEOUT", "IBV_QP_RETRY_CNT",
	"IBV_QP_RNR_RETRY", "IBV_QP_RQ_PSN", "IBV_QP_MAX_QP_RD_ATOMIC", "IBV_QP_ALT_PATH", "IBV_QP_MIN_RNR_TIMER",
	"IBV_QP_SQ_PSN", "IBV_QP_MAX_DEST_RD_ATOMIC", "IBV_QP_PATH_MIG_STATE", "IBV_QP_CAP", "IBV_QP_DEST_QPN",
}

// String returns libibverbs' names, joined by a bar. Bits without a name are combined into one
// number.
func (m Mask) String() string {
	if m == 0 {
		return "none"
	}
	var names []string
	for i, n := range maskNames {
		if m&(1<<i) != 0 {
			names = append(names, n)
		}
	}
	if rest := m >> len(maskNames) << len(maskNames); rest != 0 {
		names = append(names, fmt.Sprintf("%#x", uint32(rest)))
	}
	return strings.Join(names, "|")
}

// Apply copies the attributes that mask names from src. It ignores those that are not stored:
// MaskCurState, MaskCap and the alternate path's.
func (a *Attr) Apply(mask Mask, src *Attr) {
	put(mask&MaskState, &a.State, src.State)
	put(mask&MaskEnSQDAsyncNotify, &a.EnSQDNotify, src.EnSQDNotify)
	put(mask&MaskAccess, &a.Access, src.Access)
	put(mask&MaskPKeyIndex, &a.PKeyIndex, src.PKeyIndex)
	put(mask&MaskPort, &a.Port, src.Port)
	put(mask&MaskQKey, &a.QKey, src.QKey)
	put(mask&MaskAV, &a.Path, src.Path)
	put(mask&MaskPathMTU, &a.PathMTU, src.PathMTU)
	put(mask&MaskTimeout, &a.Timeout, src.Timeout)
	put(mask&MaskRetryCnt, &a.RetryCnt, src.RetryCnt)
	put(mask&MaskRNRRetry, &a.RNRRetry, src.RNRRetry)
	put(mask&MaskRQPSN, &a.RQPSN, src.RQPSN)
	put(mask&MaskMaxRdAtomic, &a.MaxRdAtomic, src.MaxRdAtomic)
	put(mask&MaskMinRNRTimer, &a.MinRNRTimer, src.MinRNRTimer)
	put(mask&MaskSQPSN, &a.SQPSN, src.SQPSN)
	put(mask&MaskMaxDestRdAtomic, &a.MaxDestRdAtomic, src.MaxDestRdAtomic)
	put(mask&MaskDestQPN, &a.DestQPN, src.DestQPN)
}

func put[T any](named Mask, dst *T, v T) {
	if named != 0 {
		*dst = v
	}
}

// A RangeError is an attribute whose value is not allowed. A value that is valid but not
// implemented wraps errors.ErrUnsupported.
type RangeError struct {
	Attr     Mask   // the attribute, one bit
	Expected string // the values allowed
	Found    string
	Err      error // errors.ErrUnsupported or nil
}

// Error names the attribute, what was expected and what was found.
func (e *RangeError) Error() string {
	return fmt.Sprintf("%v: expected %s, found %s", e.Attr, e.Expected, e.Found)
}

// Unwrap returns the named reason, which wraps errors.ErrUnsupported if the value is valid but
// not implemented.
func (e *RangeError) Unwrap() error {
	found, _ := strconv.ParseUint(e.Found, 10, 64) // 0 for an address
	return &reason.Error{Detail: reason.Detail{Reason: reason.QPAttributeRange, Expected: uint64(e.Attr), Found: found}, Cause: e.Err}
}

// Validate checks that the attributes that mask names are in range; the error is a
// *RangeError. The device checks what depends on it, such as the numbers of outstanding READs
// and the P_Key table: see ValidatePKey.
func Validate(mask Mask, a *Attr) error {
	if mask&MaskAltPath != 0 {
		// Automatic path migration (IBTA 10.4, 17.2.8) has no meaning on one port.
		return &RangeError{MaskAltPath, "no alternate path", "one", errors.ErrUnsupported}
	}
	if mask&MaskPathMTU != 0 && !validMTU(a.PathMTU) {
		return rangeError(MaskPathMTU, "256, 512, 1024, 2048 or 4096 bytes", a.PathMTU)
	}
	if mask&MaskAV != 0 {
		if err := validatePath(&a.Path); err != nil {
			return err
		}
	}
	for _, f := range [...]struct {
		attr     Mask
		v        uint32
		min, max uint32
	}{
		{MaskPort, uint32(a.Port), 1, 1},
		{MaskDestQPN, a.DestQPN, 0, 1<<24 - 1},
		{MaskRQPSN, uint32(a.RQPSN), 0, 1<<24 - 1},
		{MaskSQPSN, uint32(a.SQPSN), 0, 1<<24 - 1},
		{MaskTimeout, uint32(a.Timeout), 0, 31},
		{MaskMinRNRTimer, uint32(a.MinRNRTimer), 0, 31},
		{MaskRetryCnt, uint32(a.RetryCnt), 0, 7},
		{MaskRNRRetry, uint32(a.RNRRetry), 0, 7},
	} {
		switch {
		case mask&f.attr == 0 || f.v >= f.min && f.v <= f.max:
		case f.min == f.max:
			return rangeError(f.attr, fmt.Sprint(f.min), f.v)
		default:
			return rangeError(f.attr, fmt.Sprintf("%d..%d", f.min, f.max), f.v)
		}
	}
	return nil
}

// ValidatePKey checks that the index is one of a table with n entries.
func ValidatePKey(mask Mask, a *Attr, n int) error {
	if mask&MaskPKeyIndex == 0 || int(a.PKeyIndex) < n {
		return nil
	}
	expected := "0"
	if n > 1 {
		expected = fmt.Sprintf("0..%d", n-1)
	}
	return rangeError(MaskPKeyIndex, expected, a.PKeyIndex)
}

func validMTU(n int) bool {
	return n == 256 || n == 512 || n == 1024 || n == 2048 || n == 4096
}

func validatePath(p *Path) error {
	switch {
	case !p.Dst.Addr().IsValid() || p.Dst.Addr().IsUnspecified():
		return rangeError(MaskAV, "the peer's IP address", p.Dst.Addr())
	case p.ServiceLevel > 15:
		return rangeError(MaskAV, "a service level of 0..15", p.ServiceLevel)
	case p.PathBits > 127: // IBTA 7.11.1: LMC has three bits
		return rangeError(MaskAV, "source path bits of 0..127", p.PathBits)
	case p.FlowLabel >= 1<<20:
		return rangeError(MaskAV, "a flow label of 0..1048575", p.FlowLabel)
	}
	return nil
}

func rangeError[T any](attr Mask, expected string, found T) error {
	return &RangeError{Attr: attr, Expected: expected, Found: fmt.Sprint(found)}
}
