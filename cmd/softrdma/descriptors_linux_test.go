package main

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"softrdma/cmd/softrdma/internal/clitest"
)

// Without descriptors the command says so. It does not show a trace of Go's runtime, except with the one
// or two that let the runtime fail before main: package protobuf, which metrics need, opens the program's
// file when it is initialized. The trace begins with the call that has failed.
func TestFewDescriptorsAreNamed(t *testing.T) {
	command := clitest.Command(t)
	for limit := 3; limit < 12; limit++ {
		for _, args := range []string{"devices", "version", "rping -c -a 127.0.0.1 --timeout 1s", "daemon -d nothing"} {
			out, _ := exec.Command("sh", "-c", fmt.Sprintf("ulimit -n %d; exec %s %s", limit, command, args)).CombinedOutput()
			s := string(out)
			if strings.HasPrefix(s, "runtime: epollcreate failed with 24") || strings.HasPrefix(s, "runtime: eventfd failed with 24") {
				continue
			}
			if strings.Contains(s, "goroutine ") || limit < 5 && !strings.Contains(s, fmt.Sprintf("(ulimit -n) of %d", limit)) {
				t.Errorf("ulimit -n %d; softrdma %s:\n%.300s", limit, args, s)
			}
		}
	}
}
