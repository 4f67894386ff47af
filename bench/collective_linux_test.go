package main

import (
	"encoding/json"
	"os"
	"testing"

	"softrdma/bench/compare"
	"softrdma/bench/loop"
)

// Ranks of a group measure an all-reduce, of which rank 0 prints the times.
func TestCollectiveMeasuresAnAllReduce(t *testing.T) {
	text, err := json.Marshal(compare.CollectiveConfig{Op: "all-reduce", Bytes: 1 << 16, Seconds: .01})
	if err != nil {
		t.Fatal(err)
	}
	out := startProgram(t, softrdma(t), "run", "-n", "4", "--", os.Args[0], "collective", string(text)).succeeds()
	var r loop.Result
	if err := json.Unmarshal([]byte(out), &r); err != nil || r.P50 <= 0 || r.P99 < r.P50 {
		t.Errorf("%q: %+v, %v", out, r, err)
	}
	start(t, "collective", `{"op":"scan","bytes":8}`).fails("expected all-reduce")
}
