package main

import (
	"encoding/json"
	"fmt"
	"runtime"
	"testing"

	"softrdma/bench/compare"
	"softrdma/bench/loop"
)

// startScaling measures over queue pairs between two processes.
func startScaling(t *testing.T, c compare.ScalingConfig) (r compare.Result) {
	t.Helper()
	orders := func() string {
		b, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	c.Address, c.Device, c.Server = fmt.Sprintf("127.0.0.1:%d", loop.FreePort()), loopbackDevice(), true
	server := start(t, "scaling", orders())
	server.line()
	if runtime.GOOS == "linux" {
		c.Process = server.cmd.Process.Pid
	}
	c.Device, c.Server = loopbackDevice(), false
	client := start(t, "scaling", orders())
	if err := json.Unmarshal([]byte(client.succeeds()), &r); err != nil {
		t.Fatal(err)
	}
	server.ends()
	return r
}

func TestScalingWritesOverAllQueuePairs(t *testing.T) {
	r := startScaling(t, compare.ScalingConfig{QPs: 1500, Bytes: 5000, Seconds: .05})
	if r.Rate <= 0 || r.Throughput != r.Rate*5000 {
		t.Errorf("%v messages and %v bytes a second", r.Rate, r.Throughput)
	}
	if r.Memory < 256 || r.Memory > 4096 {
		t.Errorf("an idle queue pair takes %v bytes", r.Memory)
	}
	if r.Idle != 0 {
		t.Errorf("idle at %v though it wrote", r.Idle)
	}
	if r.Wakeups <= 0 && runtime.GOOS == "linux" {
		t.Error("no context switches of the server were counted")
	}
}

func TestScalingMeasuresIdleDevice(t *testing.T) {
	r := startScaling(t, compare.ScalingConfig{QPs: 10, Seconds: .05})
	if r.Idle <= 0 || r.Rate != 0 {
		t.Errorf("processors %v, messages a second %v, expected some and none", r.Idle, r.Rate)
	}
}
