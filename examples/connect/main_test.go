package main

import (
	"os"
	"os/exec"
	"regexp"
	"testing"
)

// In the process that the test starts, the test binary runs the example.
func TestMain(m *testing.M) {
	if os.Getenv("CONNECT_EXAMPLE") != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

func TestGreetingArrives(t *testing.T) {
	c := exec.Command(os.Args[0], "-listen", "127.9.255.254:7471")
	c.Env = append(os.Environ(), "CONNECT_EXAMPLE=1")
	out, err := c.CombinedOutput()
	if err != nil || !regexp.MustCompile(`^127\.9\.255\.254:7471 receives "hello from 127\.\d+\.\d+\.\d+:\d+"\n$`).Match(out) {
		t.Fatalf("%v\n%s", err, out)
	}
}
