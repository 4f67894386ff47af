package control

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"softrdma/internal/testenv"
)

// listening makes a socket of a process in a directory, to which no process answers yet.
func listening(t *testing.T, dir, pid string) net.Listener {
	t.Helper()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, pid), Net: "unix"})
	if err != nil {
		t.Skip("SKIPPED: no Unix sockets: ", err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func answer(l net.Listener, pid int) {
	_ = http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(Process{PID: pid}) }))
}

// A process that does not answer, as one that is stopped, is waited for once, not at each question. It is
// there again once it answers.
func TestProcessThatDoesNotAnswerIsWaitedForOnce(t *testing.T) {
	dir := testenv.SocketDir(t)
	t.Setenv("SOFTRDMA_CONTROL_DIR", dir)
	go answer(listening(t, dir, "4711"), 4711)
	stopped := listening(t, dir, "4712")

	var a Asker
	until := func(limit time.Duration, n int) error {
		t.Helper()
		for range 600 {
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			all, err := a.Processes(ctx)
			if limit == time.Minute && ctx.Err() != nil {
				t.Fatal("waited for a process that did not answer before")
			}
			cancel()
			if len(all) == n {
				return err
			}
			time.Sleep(100 * time.Millisecond)
		}
		t.Fatalf("%d processes have not answered", n)
		return nil
	}
	until(time.Second, 1)
	if err := until(time.Minute, 1); err == nil || !strings.Contains(err.Error(), "process 4712: does not answer") {
		t.Errorf("error: %v", err)
	}
	go answer(stopped, 4712)
	if err := until(time.Minute, 2); err != nil {
		t.Error(err)
	}
}
