package measure

import (
	"testing"

	"softrdma/cmd/softrdma/internal/clitest"
	"softrdma/verbs"
)

// Failed memory allocation is an error and not a crash.
func TestSideWithoutMemoryFails(t *testing.T) {
	dev, err := verbs.Open(clitest.LoopbackDevice(t), verbs.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	if s, err := NewSide(dev, SideConfig{QPs: 1, Depth: 1, Recv: 1, Memory: 1 << 60}); err == nil {
		s.Close()
		t.Error("expected an error for 2^60 bytes")
	}
}
