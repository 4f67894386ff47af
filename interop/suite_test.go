//go:build interop && linux

package interop

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"softrdma/interop/internal/suite"
)

var updateSuite = flag.Bool("update-suite", false, "record what rdma-core's tests give on Linux's Soft RoCE")

// What Linux's Soft RoCE makes of rdma-core's own tests is what the programs under softrdma exec are held to.
func TestSuiteOnLinuxIsAsRecorded(t *testing.T) {
	lab := openLab(t)
	r, err := lab.Guests[0].Run(within(t, 5*time.Minute), "sh", "-c", "mkdir /run/suite && cd /run/suite && "+suite.Commands+" 2>&1")
	// The status is not 0: one of the tests fails there.
	got, parseErr := suite.Parse(strings.NewReader(r.Stdout))
	if parseErr != nil {
		t.Fatal(parseErr, err)
	}
	if *updateSuite {
		b, err := json.MarshalIndent(got, "", "\t")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(sourceDir(), "internal/suite/rxe.json"), append(b, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := suite.Rxe()
	if err != nil {
		t.Fatal(err)
	}
	for name := range want {
		if (got[name] == suite.Passed) != (want[name] == suite.Passed) {
			t.Errorf("%s: found %q, recorded is %q", name, got[name], want[name])
		}
	}
}
