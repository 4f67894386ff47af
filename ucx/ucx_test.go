package ucx_test

import (
	"bytes"
	"errors"
	"os"
	"testing"
	"time"
	"unsafe"

	. "github.com/openucx/ucx/bindings/go/src/ucx"
)

// deviceVariable names the device of a test's contexts.
const deviceVariable = "SOFTRDMA_DEVICE"

func TestMain(m *testing.M) {
	if err := os.Setenv(deviceVariable, "127.0.0.41"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// each runs a test with devices of each protocol.
func each(t *testing.T, f func(t *testing.T)) {
	for name, device := range map[string]string{"RoCE": "127.0.0.41", "iWARP": "iwarp:127.0.0.41"} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(deviceVariable, device)
			f(t)
		})
	}
}

// all enables the features that the tests use.
func all() *UcpParams { return (&UcpParams{}).EnableTag().EnableAM().EnableWakeup() }

func newContext(t testing.TB, p *UcpParams) *UcpContext {
	t.Helper()
	c, err := NewUcpContext(p)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func newWorker(t testing.TB, p *UcpWorkerParams) *UcpWorker {
	t.Helper()
	w, err := newContext(t, all()).NewWorker(p)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	return w
}

// until makes progress until a condition is true.
func until(t testing.TB, what string, ok func() bool, workers ...*UcpWorker) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !ok(); {
		for _, w := range workers {
			w.Progress()
		}
		if time.Now().After(end) {
			t.Fatalf("not after 30 s: %s", what)
		}
	}
}

// ends waits for the end of a request, which has a status.
func ends(t testing.TB, r *UcpRequest, want UcsStatus, workers ...*UcpWorker) {
	t.Helper()
	until(t, "end of a request", func() bool { return r.GetStatus() != UCS_INPROGRESS }, workers...)
	if s := r.GetStatus(); s != want {
		t.Fatalf("the request ended with %v, expected %v", s, want)
	}
	r.Close()
}

// started returns a request that was started without an error.
func started(t testing.TB) func(r *UcpRequest, err error) *UcpRequest {
	return func(r *UcpRequest, err error) *UcpRequest {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
}

// refused checks that an operation was refused with a status.
func refused(t testing.TB, r *UcpRequest, err error, want UcsStatus) {
	t.Helper()
	var x *UcxError
	if !errors.As(err, &x) || x.GetStatus() != want {
		t.Fatalf("the error is %v, expected %v", err, want)
	}
	if r != nil && r.GetStatus() != want {
		t.Fatalf("the request has status %v, expected %v", r.GetStatus(), want)
	}
}

// connect makes an endpoint of a to b.
func connect(t testing.TB, a, b *UcpWorker, p *UcpEpParams) *UcpEp {
	t.Helper()
	address, err := b.GetAddress()
	if err != nil {
		t.Fatal(err)
	}
	defer address.Close()
	e, err := a.NewEndpoint(p.SetUcpAddress(address))
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// native returns memory that the test's end frees.
func native(t testing.TB, n int) (unsafe.Pointer, []byte) {
	t.Helper()
	p := AllocateNativeMemory(uint64(n))
	if p == nil {
		t.Fatal("no memory")
	}
	t.Cleanup(func() { FreeNativeMemory(p) })
	return p, unsafe.Slice((*byte)(p), n)
}

// pattern fills memory with bytes that depend on their position.
func pattern(b []byte) []byte {
	for i := range b {
		b[i] = byte(i*7 + i>>8)
	}
	return b
}

func same(t testing.TB, got, want []byte) {
	t.Helper()
	if !bytes.Equal(got, want) {
		t.Fatalf("other bytes arrived: %d bytes %.16x, expected %d bytes %.16x", len(got), got, len(want), want)
	}
}
