package bench

import (
	"encoding/json"
	"testing"

	"softrdma/bench"
	"softrdma/bench/loop"
	"softrdma/cmd/softrdma/internal/cli"
	"softrdma/cmd/softrdma/internal/clitest"
)

// Ranks of a group measure an all-reduce, of which rank 0 prints the times.
func TestCollectiveMeasuresAnAllReduce(t *testing.T) {
	text, err := json.Marshal(bench.CollectiveConfig{Op: "all-reduce", Bytes: 1 << 16, Seconds: .01})
	if err != nil {
		t.Fatal(err)
	}
	out := clitest.Run(t, "run", "-n", "4", "--", clitest.Command(t), "bench", "collective", string(text))
	var r loop.Result
	if err := json.Unmarshal([]byte(out), &r); err != nil || r.P50 <= 0 || r.P99 < r.P50 {
		t.Errorf("%q: %+v, %v", out, r, err)
	}
	clitest.Start(t, "bench", "collective", `{"op":"scan","bytes":8}`).Fails(cli.ExitUsage, "expected all-reduce")
}
