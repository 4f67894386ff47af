package console

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"softrdma/cmd/softrdma/internal/clitest"
	"softrdma/internal/capture/ladder"
	"softrdma/internal/console"
	"softrdma/verbs"
)

// serve runs the command and returns the URL that it prints, and its token.
func serve(t *testing.T) (at, token string) {
	t.Helper()
	t.Setenv("SOFTRDMA_CONTROL_DIR", filepath.Join(t.TempDir(), "control"))
	ctx, cancel := context.WithCancel(t.Context())
	r, w := io.Pipe()
	ended := make(chan error)
	c := command{listen: "127.0.0.1"}
	go func() { ended <- c.run(ctx, w, io.Discard) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	var line string
	if _, err := fmt.Fscanln(r, &line); err != nil {
		t.Fatal(err)
	}
	at, token, ok := strings.Cut(line, "/#token=")
	if !ok || !strings.HasPrefix(at, "http://127.0.0.1:") || len(token) < 26 {
		t.Fatalf("printed %q", line)
	}
	return at, token
}

func get(t *testing.T, url, token string, out any) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set(console.TokenHeader, token)
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	b, err := io.ReadAll(a.Body)
	if err != nil || a.StatusCode != http.StatusOK {
		t.Fatalf("%s: %d %s, %v", url, a.StatusCode, b, err)
	}
	if err := json.Unmarshal(b, out); err != nil {
		t.Fatalf("%s: %v", url, err)
	}
}

func TestConsoleShowsDevicesOfPrograms(t *testing.T) {
	at, token := serve(t)
	dev, err := verbs.Open(clitest.LoopbackDevice(t), verbs.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	var snap struct {
		Processes []struct {
			PID     int
			Devices []struct{ Name string }
		}
	}
	get(t, at+"/api/snapshot", token, &snap)
	if p := snap.Processes; len(p) != 1 || p[0].PID != os.Getpid() || len(p[0].Devices) != 1 {
		t.Fatalf("%+v", snap)
	}
	var h struct {
		Lines  []string
		Ladder ladder.Figure
	}
	get(t, fmt.Sprintf("%s/api/processes/%d/devices/%s/qps/17", at, os.Getpid(), snap.Processes[0].Devices[0].Name), token, &h)
	if len(h.Lines) != 0 || h.Ladder.Connections == nil || len(h.Ladder.Connections) != 0 {
		t.Errorf("%+v", h)
	}
}

func TestConsoleRefusesAddressesOfOthers(t *testing.T) {
	t.Setenv("SOFTRDMA_CONTROL_DIR", t.TempDir())
	cmd := NewCommand()
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	cmd.SilenceUsage = true
	cmd.SetArgs([]string{"--listen", "192.0.2.1"})
	if err := cmd.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), "--listen 192.0.2.1 --port 0: expected an address of this host") {
		t.Errorf("%v", err)
	}
	t.Setenv("SOFTRDMA_CONTROL_DIR", "off")
	cmd.SetArgs(nil)
	if err := cmd.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), "SOFTRDMA_CONTROL_DIR is off") {
		t.Errorf("%v", err)
	}
}
