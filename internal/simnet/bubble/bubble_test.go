package bubble

import (
	"testing"
	"testing/synctest"
	"time"

	"softrdma/internal/simnet"
)

func TestDevicesOpenAndClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(1, simnet.LinkConfig{})
		h, err := w.Open("127.0.0.2")
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if err := h.Device.Close(); err != nil {
			t.Error(err)
		}
		w.End()
	})
}
