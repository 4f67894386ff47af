package msg

import (
	"testing"

	"softrdma/msg/internal/format"
)

func TestLimitsOfAddressesAreThoseOfConfig(t *testing.T) {
	if format.MaxEager != MaxEager || format.MaxUnexpected != MaxUnexpected || format.MaxStream != MaxStream {
		t.Errorf("%d, %d, %d, expected %d, %d, %d", format.MaxEager, format.MaxUnexpected, format.MaxStream, MaxEager, MaxUnexpected, MaxStream)
	}
}
