package console

import (
	"encoding/json"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"softrdma/internal/control"
	"softrdma/internal/testenv"
)

// A program that does not answer is asked once and then once in the background, however many snapshots
// there are, and the other one is in all of them.
func TestSnapshotsWaitOnceForAProgram(t *testing.T) {
	dir := testenv.SocketDir(t)
	t.Setenv("SOFTRDMA_CONTROL_DIR", dir)
	listen := func(pid string) *net.UnixListener {
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, pid), Net: "unix"})
		if err != nil {
			t.Skip("SKIPPED: no Unix sockets: ", err)
		}
		t.Cleanup(func() { l.Close() })
		return l
	}
	stopped, running := listen("4711"), listen("4712")
	go func() {
		_ = http.Serve(running, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/v1/process" {
				_ = json.NewEncoder(w).Encode(control.Process{PID: 4712, Program: "running", Devices: []control.Info{{Name: "lo"}}})
				return
			}
			_, _ = w.Write([]byte("{}"))
		}))
	}()
	var g gatherer
	for n, tries := 0, 0; n < 4; tries++ {
		b, err := g.gather(t.Context())
		if text := string(b); err == nil && strings.Contains(text, `"running"`) && strings.Contains(text, "process 4711: does not answer") {
			n++
		} else if tries == 1000 {
			t.Fatalf("%s, %v", b, err)
		}
	}
	asked := 0
	for {
		_ = stopped.SetDeadline(time.Now().Add(100 * time.Millisecond))
		c, err := stopped.Accept()
		if err != nil {
			break
		}
		c.Close()
		asked++
	}
	if asked > 2 {
		t.Errorf("asked %d times", asked)
	}
}
