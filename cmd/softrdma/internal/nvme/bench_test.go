package nvme

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"softrdma/cmd/softrdma/internal/cli"
	"softrdma/cmd/softrdma/internal/clitest"
)

func TestBenchMeasuresAndVerifies(t *testing.T) {
	at := clitest.ServerAddress(t)
	serve(t, at, "--namespace", "memory,1M,block=4096")
	for _, x := range []struct {
		pattern    string
		operations []string
		verify     bool
	}{
		{patternRead, []string{"read"}, false},
		{patternRandRW, []string{"read", "write"}, true},
	} {
		args := []string{"nvme", "bench", "--json", "-n", nqn, "--rw", x.pattern, "-s", "8K", "-t", "7", "--queues", "2", "--iters", "500", at}
		if x.verify {
			args = append(args, "--verify")
		}
		var r benchReport
		if err := json.Unmarshal([]byte(clitest.Run(t, args...)), &r); err != nil {
			t.Fatal(err)
		}
		count := int64(0)
		var operations []string
		for _, y := range r.Results {
			operations = append(operations, y.Operation)
			count += y.Iterations
			if y.Size != 8192 || y.MiB <= 0 || y.Peak < y.Average || y.Latency.Iterations != y.Iterations || y.Latency.Min <= 0 {
				t.Errorf("%s: %+v", x.pattern, y)
			}
		}
		if count != 500 || fmt.Sprint(operations) != fmt.Sprint(x.operations) || (r.Verified > 0) != x.verify || r.Lost != 0 {
			t.Errorf("%s: got %+v", x.pattern, r)
		}
	}
	if out := clitest.Run(t, "nvme", "bench", "-n", nqn, "--rw", "randrw", "--verify", "--iters", "100", at); !strings.Contains(out, "blocks compared, none wrong") {
		t.Error(out)
	}
	for _, x := range [][]string{
		{"--rw", "sideways"}, {"-t", "128"}, {"--verify"}, {"-s", "1000"},
	} {
		clitest.Start(t, append([]string{"nvme", "bench", "-n", nqn, at}, x...)...).Fails(cli.ExitUsage, "--")
	}
}

// What others write where the blocks are verified is noticed.
func TestBenchFindsWrongData(t *testing.T) {
	data := make([]byte, 4096)
	fill(data, 3, 7)
	if err := verify(data, 3, 7); err != nil {
		t.Error(err)
	}
	for _, other := range []func() error{
		func() error { return verify(data, 3, 8) },
		func() error { return verify(data, 2, 7) },
		func() error { data[4095] ^= 1; return verify(data, 3, 7) },
	} {
		if err := other(); cli.ExitCode(err) != cli.ExitData {
			t.Errorf("got %v", err)
		}
	}
}
