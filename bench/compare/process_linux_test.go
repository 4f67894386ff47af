package compare

import (
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A command may start a program and end before it.
func TestStoppingAServerEndsWhatItStarted(t *testing.T) {
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skip(err)
	}
	d, said, err := Loopback().startServer(t.Context(), "started", sh, "-c", "sleep 60 & echo $!; echo started; wait")
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.Fields(said)[0])
	if err != nil {
		t.Fatal(err)
	}
	d.stop()
	for range 1000 {
		if syscall.Kill(pid, 0) == syscall.ESRCH {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("process %d still runs", pid)
}
