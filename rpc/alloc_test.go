//go:build !race

package rpc_test

import (
	"context"
	"testing"

	"softrdma/rpc"
)

// Both ends are in this process, so the figure is that of both together.
func TestShortCallsAllocateAtMostTwice(t *testing.T) {
	w := serve(t, "", rpc.ServerConfig{}, echo(rpc.RunReceiver))
	m := w.dial(rpc.ClientConfig{}).Method("test/echo", nil)
	body, dst := make([]byte, 64), make([]byte, 0, 64)
	call := func() {
		if _, err := m.Bytes(context.Background(), body, dst); err != nil {
			t.Fatal(err)
		}
	}
	call()
	if n := testing.AllocsPerRun(2000, call); n > 2 {
		t.Errorf("%v allocations, expected at most 2", n)
	}
}
