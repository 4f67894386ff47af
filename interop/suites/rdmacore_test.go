//go:build interop && linux

package suites

import (
	"encoding/json"
	"flag"
	"os"
	"strings"
	"testing"
	"time"

	"softrdma/interop/suites/rdmacore"
)

var updateSuite = flag.Bool("update-suite", false, "record what rdma-core's tests give on Linux's Soft RoCE")

// What Linux's Soft RoCE makes of rdma-core's own tests is what the programs under softrdma exec are held to.
func TestSuiteOnLinuxIsAsRecorded(t *testing.T) {
	l := openLab(t)
	r, err := l.Guests[0].Run(within(t, 5*time.Minute), "sh", "-c", "mkdir /run/suite && cd /run/suite && "+rdmacore.Commands+" 2>&1")
	// The status is not 0: one of the tests fails there.
	got, parseErr := rdmacore.Parse(strings.NewReader(r.Stdout))
	if parseErr != nil {
		t.Fatal(parseErr, err)
	}
	if *updateSuite {
		b, err := json.MarshalIndent(got, "", "\t")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile("rdmacore/rxe.json", append(b, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := rdmacore.Rxe()
	if err != nil {
		t.Fatal(err)
	}
	for name := range want {
		if (got[name] == rdmacore.Passed) != (want[name] == rdmacore.Passed) {
			t.Errorf("%s: found %q, recorded is %q", name, got[name], want[name])
		}
	}
}
