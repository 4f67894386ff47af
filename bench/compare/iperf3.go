package compare

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"strconv"
	"time"

	"softrdma/bench/loop"
)

// Iperf3 measures the kernel's TCP with iperf3. It uses cubic, because BBR, the default
// of some systems, throttles a single stream on the loopback interface.
type Iperf3 struct{}

// Name returns "iperf3".
func (Iperf3) Name() string { return "iperf3" }

// Check returns an error unless iperf3 is installed.
func (Iperf3) Check() error { return installed("iperf3", "iperf3") }

func installed(program, debian string) error {
	if _, err := exec.LookPath(program); err != nil {
		return fmt.Errorf("%s is not installed (Debian: apt install %s)", program, debian)
	}
	return nil
}

// Run implements Tool.
func (Iperf3) Run(ctx context.Context, p *Path, w Work, d time.Duration) (Result, error) {
	port := strconv.Itoa(int(loop.FreePort()))
	out, err := p.run(ctx, "Server listening",
		[]string{"iperf3", "-s", "-1", "--forceflush", "-B", p.Server.String(), "-p", port},
		[]string{"iperf3", "-c", p.Server.String(), "-B", p.Client.String(), "-p", port, "-J", "-C", "cubic",
			"-l", strconv.Itoa(w.Bytes), "-t", strconv.Itoa(max(1, int(d.Seconds()+.5)))})
	if err != nil {
		return Result{}, err
	}
	var r struct {
		End struct {
			Received struct {
				Bits    float64 `json:"bits_per_second"`
				Bytes   float64 `json:"bytes"`
				Seconds float64 `json:"seconds"`
			} `json:"sum_received"`
			CPU struct {
				Host   float64 `json:"host_total"`
				Remote float64 `json:"remote_total"`
			} `json:"cpu_utilization_percent"`
		} `json:"end"`
	}
	if err := json.Unmarshal(out, &r); err != nil {
		return Result{}, fmt.Errorf("iperf3 -J: %w", err)
	}
	e := r.End
	if e.Received.Bytes == 0 {
		return Result{}, fmt.Errorf("iperf3 -J: nothing was received")
	}
	cpu := (e.CPU.Host + e.CPU.Remote) / 100 * e.Received.Seconds
	return Result{Result: loop.Result{Throughput: e.Received.Bits / 8, CPU: cpu / (e.Received.Bytes / (1 << 30))}}, nil
}
