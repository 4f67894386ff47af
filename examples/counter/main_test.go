package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// In the process that the test starts, and in that process's children, the test binary
// runs the example.
func TestMain(m *testing.M) {
	if os.Getenv("COUNTER_EXAMPLE") != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

func TestEveryAdditionCounts(t *testing.T) {
	c := exec.Command(os.Args[0], "-n", "200", "-processes", "3")
	c.Env = append(os.Environ(), "COUNTER_EXAMPLE=1")
	out, err := c.CombinedOutput()
	// 16 goroutines in 4 processes and the CPU add 200 each.
	if err != nil || !strings.Contains(string(out), "counted to 3400\n") {
		t.Fatalf("%v\n%s", err, out)
	}
}
