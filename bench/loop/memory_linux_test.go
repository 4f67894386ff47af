package loop

import (
	"math"
	"os"
	"strings"
	"testing"
	"time"
)

func TestMemcpyMeasures(t *testing.T) {
	for _, n := range []int{1, copyPiece + 1, 1 << 20} {
		r := memcpy(n, 5*time.Millisecond)
		if r.Rate <= 0 || r.Throughput != r.Rate*float64(n) {
			t.Errorf("%d bytes: %+v", n, r)
		}
	}
}

func TestParseMemoryConfigRefusesInvalidValues(t *testing.T) {
	for text, want := range map[string]string{
		`{"op":"x","seconds":1}`:                  `found "x"`,
		`{"op":"memcpy","seconds":1}`:             "bytes of a copy: expected 1 to 1073741824, found 0",
		`{"op":"futex","seconds":0}`:              "seconds: expected up to 3600, found 0",
		`{"op":"futex","seconds":1,"other":true}`: "other",
		``: "configuration",
	} {
		if _, err := ParseMemoryConfig(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, expected %q", text, err, want)
		}
	}
}

func TestContextSwitchesOfProcess(t *testing.T) {
	before, err := ContextSwitches(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Millisecond) // the thread gives up the processor
	after, err := ContextSwitches(os.Getpid())
	if err != nil || after <= before {
		t.Errorf("%d context switches, then %d, %v", before, after, err)
	}
	if _, err := ContextSwitches(math.MaxInt32); err == nil {
		t.Error("no error for a process that does not exist")
	}
}
