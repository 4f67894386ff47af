package lines

import (
	"bytes"
	"testing"
	"unsafe"
)

func TestCopyWritesOnlyWholeLines(t *testing.T) {
	const n = 7
	for _, from := range []int{0, 1, 12, 63} {
		src, dst := make([]byte, (n+1)*Size), make([]byte, (n+3)*Size)
		for i := range src {
			src[i] = byte(i*7 + 1)
		}
		at := Size - int(uintptr(unsafe.Pointer(&dst[0]))%Size)
		for lines := 1; lines <= n; lines++ {
			clear(dst)
			Copy(&dst[at], &src[from], lines)
			Await()
			want := make([]byte, len(dst))
			copy(want[at:], src[from:from+lines*Size])
			if !bytes.Equal(dst, want) {
				t.Errorf("%d lines from offset %d: found other bytes", lines, from)
			}
		}
	}
}
