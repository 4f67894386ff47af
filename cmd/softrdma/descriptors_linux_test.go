package main

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"softrdma/cmd/softrdma/internal/clitest"
)

// Without descriptors the command says so. It does not show a trace of Go's runtime.
func TestFewDescriptorsAreNamed(t *testing.T) {
	command := clitest.Command(t)
	for limit := 3; limit < 12; limit++ {
		for _, args := range []string{"devices", "version", "rping -c -a 127.0.0.1 --timeout 1s", "daemon -d nothing"} {
			out, _ := exec.Command("sh", "-c", fmt.Sprintf("ulimit -n %d; exec %s %s", limit, command, args)).CombinedOutput()
			if s := string(out); strings.Contains(s, "goroutine ") || limit < 5 && !strings.Contains(s, fmt.Sprintf("(ulimit -n) of %d", limit)) {
				t.Errorf("ulimit -n %d; softrdma %s:\n%.300s", limit, args, s)
			}
		}
	}
}
