package ucx_test

import (
	"errors"
	"fmt"
	"math"
	"testing"
	"unsafe"

	. "github.com/openucx/ucx/bindings/go/src/ucx"
	"softrdma/msg"
	"softrdma/rdmacm"
	"softrdma/verbs"
)

func TestContextQueryReturnsItsAttributes(t *testing.T) {
	c := newContext(t, all().SetName("before").SetTagSenderMask(1).SetEstimatedNumEPS(2).SetEstimatedNumPPN(3).EnableSharedWorkers().SetName("after"))
	a, err := c.Query(UCP_ATTR_FIELD_NAME, UCP_ATTR_FIELD_THREAD_MODE, UCP_ATTR_FIELD_MEMORY_TYPES, UCP_ATTR_FIELD_REQUEST_SIZE)
	if err != nil || a.Name != "after" || a.ThreadMode != UCS_THREAD_MODE_MULTI || a.MemoryTypes != 1 || a.RequestSize == 0 {
		t.Errorf("%+v, %v", a, err)
	}
	if a, err := c.Query(); err != nil || *a != (UcpContextAttributes{}) {
		t.Errorf("%+v, %v: expected only the fields that were asked for", a, err)
	}
	mask, err := c.MemoryTypesMask()
	if err != nil || !IsMemTypeSupported(UCS_MEMORY_TYPE_HOST, mask) || IsMemTypeSupported(UCS_MEMORY_TYPE_CUDA, mask) || IsMemTypeSupported(-1, math.MaxUint64) {
		t.Errorf("mask %#x, %v", mask, err)
	}
}

func TestContextsAndWorkersShareADeviceUntilTheLastCloses(t *testing.T) {
	t.Setenv(deviceVariable, "127.0.0.42")
	open := func() error {
		dev, err := verbs.Open("127.0.0.42", verbs.Config{})
		if err == nil {
			err = dev.Close()
		}
		return err
	}
	first, err := NewUcpContext(all())
	if err != nil {
		t.Fatal(err)
	}
	second := newContext(t, all())
	w, err := second.NewWorker(&UcpWorkerParams{})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time does nothing
		for _, c := range []*UcpContext{first, second} {
			if err := c.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if open() == nil {
		t.Error("the device is closed, expected it open for the worker")
	}
	w.Close()
	w.Close()
	if err := open(); err != nil {
		t.Errorf("the device is open after the last worker: %v", err)
	}
}

func TestAddressOfAnotherProgramGetsAnotherPort(t *testing.T) {
	t.Setenv(deviceVariable, "127.0.0.43")
	other, err := verbs.Open("127.0.0.43", verbs.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	a, b := newWorker(t, &UcpWorkerParams{}), newWorker(t, &UcpWorkerParams{})
	ends(t, started(t)(connect(t, a, b, &UcpEpParams{}).FlushNonBlocking(nil)), UCS_OK, a, b)
}

func TestUnknownDeviceIsNamed(t *testing.T) {
	t.Setenv(deviceVariable, "nothing0")
	_, err := NewUcpContext(all())
	refused(t, nil, err, UCS_ERR_NO_DEVICE)
}

func TestConfigHasNoOption(t *testing.T) {
	c, err := ReadConfig()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	refused(t, nil, c.Modify("TLS", "tcp"), UCS_ERR_NO_ELEM)
}

func TestMemoryIsAllocatedOrMapped(t *testing.T) {
	c := newContext(t, all())
	query := func(p *UcpMmapParams) *UcpMemAttributes {
		t.Helper()
		m, err := c.MemMap(p)
		if err != nil {
			t.Fatal(err)
		}
		a, err := m.Query(UCP_MEM_ATTR_FIELD_ADDRESS, UCP_MEM_ATTR_FIELD_LENGTH, UCP_MEM_ATTR_FIELD_MEM_TYPE)
		if err != nil || a.MemType != UCS_MEMORY_TYPE_HOST {
			t.Fatal(a, err)
		}
		if a.Length > 0 {
			pattern(unsafe.Slice((*byte)(a.Address), a.Length))
		}
		for range 2 {
			if err := m.Close(); err != nil {
				t.Error(err)
			}
		}
		return a
	}
	for _, n := range []uint64{1, 100_000} {
		if a := query((&UcpMmapParams{}).Allocate().Nonblocking().SetLength(n).SetMemoryType(UCS_MEMORY_TYPE_UNKNOWN)); a.Address == nil || a.Length != n {
			t.Errorf("%+v, expected %d bytes", a, n)
		}
	}
	p, b := native(t, 100)
	if a := query((&UcpMmapParams{}).SetAddress(p).SetLength(100).SetProtection(UCP_MEM_MAP_PROT_LOCAL_READ)); a.Address != p || a.Length != 100 {
		t.Errorf("%+v, expected 100 bytes at %p", a, p)
	}
	same(t, b, pattern(make([]byte, 100))) // it stays after Close

	for name, x := range map[string]struct {
		p    *UcpMmapParams
		want UcsStatus
	}{
		"CUDA":    {(&UcpMmapParams{}).Allocate().SetLength(1).SetMemoryType(UCS_MEMORY_TYPE_CUDA), UCS_ERR_UNSUPPORTED},
		"fixed":   {(&UcpMmapParams{}).Allocate().SetLength(1).SetAddress(p).Fixed(), UCS_ERR_UNSUPPORTED},
		"length":  {(&UcpMmapParams{}).Allocate(), UCS_ERR_INVALID_PARAM},
		"address": {(&UcpMmapParams{}).SetLength(1), UCS_ERR_INVALID_PARAM},
		"huge":    {(&UcpMmapParams{}).Allocate().SetLength(1 << 63), UCS_ERR_NO_MEMORY},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := c.MemMap(x.p)
			refused(t, nil, err, x.want)
		})
	}
}

func TestNativeMemoryStaysAndIsAligned(t *testing.T) {
	for _, n := range []int{0, 1, 15, 16, 17, 100, 1<<14 - 1, 1 << 14, 1 << 20} {
		p := AllocateNativeMemory(uint64(n))
		if uintptr(p)%16 != 0 {
			t.Errorf("%d bytes at %p, expected a multiple of 16", n, p)
		}
		pattern(unsafe.Slice((*byte)(p), n))
		same(t, GoBytes(p, uint64(n)), pattern(make([]byte, n)))
		FreeNativeMemory(p)
	}
	p := CBytes([]byte("bytes"))
	same(t, GoBytes(p, 5), []byte("bytes"))
	FreeNativeMemory(p)
	FreeNativeMemory(nil)
	if AllocateNativeMemory(math.MaxUint64) != nil || AllocateNativeMemory(1<<62) != nil {
		t.Error("more memory than there is")
	}
	defer func() {
		if recover() == nil {
			t.Error("the second free did not panic")
		}
	}()
	FreeNativeMemory(p)
}

func TestMemoryTypeIsAFlag(t *testing.T) {
	var m UcsMemoryType
	for _, want := range []UcsMemoryType{UCS_MEMORY_TYPE_HOST, UCS_MEMORY_TYPE_CUDA, UCS_MEMORY_TYPE_CUDA_MANAGED, UCS_MEMORY_TYPE_ROCM, UCS_MEMORY_TYPE_ROCM_MANAGED, UCS_MEMORY_TYPE_UNKNOWN} {
		if err := m.Set(want.String()); err != nil || m != want {
			t.Errorf("%v: set to %v, %v", want, m, err)
		}
	}
	if err := m.Set("CUDA"); err != nil || m != UCS_MEMORY_TYPE_CUDA {
		t.Errorf("set to %v, %v, expected no difference between cases", m, err)
	}
	if err := m.Set("paper"); err == nil || m != UCS_MEMORY_TYPE_CUDA {
		t.Errorf("set to %v, %v, expected an error", m, err)
	}
	if s := UcsMemoryType(99).String(); s != "memory type 99" {
		t.Error(s)
	}
}

func TestErrorsCompareByStatus(t *testing.T) {
	err := NewUcxError(UCS_ERR_UNSUPPORTED)
	if !errors.Is(err, NewUcxError(UCS_ERR_UNSUPPORTED)) || errors.Is(err, NewUcxError(UCS_ERR_BUSY)) || !errors.Is(err, errors.ErrUnsupported) {
		t.Error(err)
	}
	if err.Error() != UCS_ERR_UNSUPPORTED.String() || UCS_ERR_UNSUPPORTED.String() == UCS_ERR_BUSY.String() || UcsStatus(-50).String() != "status -50" {
		t.Error(err, UCS_ERR_BUSY, UcsStatus(-50))
	}
}

func TestErrorsOfPackagesBelowHaveStatuses(t *testing.T) {
	for _, x := range []struct {
		err  error
		want UcsStatus
	}{
		{nil, UCS_OK},
		{fmt.Errorf("%w: %w", msg.ErrPeer, rdmacm.ErrDisconnected), UCS_ERR_CONNECTION_RESET},
		{fmt.Errorf("%w: %w", msg.ErrPeer, msg.ErrClosed), UCS_ERR_CANCELED}, // this end closed it
		{fmt.Errorf("%w: %w", msg.ErrPeer, errors.New("silent")), UCS_ERR_ENDPOINT_TIMEOUT},
		{&rdmacm.UnreachableError{}, UCS_ERR_UNREACHABLE},
		{&rdmacm.ResolveError{}, UCS_ERR_UNREACHABLE},
		{fmt.Errorf("%w: %w", msg.ErrStale, &rdmacm.RejectedError{}), UCS_ERR_UNREACHABLE},
		{&rdmacm.RejectedError{}, UCS_ERR_REJECTED},
		{fmt.Errorf("call: %w", NewUcxError(UCS_ERR_BUSY)), UCS_ERR_BUSY},
		{msg.Rejection(4), UCS_ERR_NO_MEMORY},
		{msg.Rejection(100), UCS_ERR_LAST},
		{msg.Rejection(101), UCS_ERR_IO_ERROR},
		{msg.Rejection(1<<32 - 1), UCS_ERR_IO_ERROR}, // not UCS_INPROGRESS
		{errors.New("other"), UCS_ERR_IO_ERROR},
	} {
		if s := StatusOf(x.err); s != x.want {
			t.Errorf("%v has status %v, expected %v", x.err, s, x.want)
		}
	}
}
