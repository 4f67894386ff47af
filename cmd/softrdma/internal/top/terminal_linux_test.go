package top

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mattn/go-runewidth"

	"softrdma/cmd/softrdma/internal/clitest"
	"softrdma/internal/testenv"
)

// A tmuxTerminal is a terminal in which a command runs.
type tmuxTerminal struct {
	t      *testing.T
	socket string
}

// startTerminal runs a command in a terminal of so many columns and lines.
func startTerminal(t *testing.T, columns, lines string, command ...string) *tmuxTerminal {
	t.Helper()
	testenv.Programs(t, "tmux")
	x := &tmuxTerminal{t, filepath.Join(t.TempDir(), "tmux")}
	x.tmux(append([]string{"-f", "/dev/null", "new-session", "-d", "-s", "top", "-x", columns, "-y", lines}, command...)...)
	t.Cleanup(func() { _ = exec.Command("tmux", "-S", x.socket, "kill-server").Run() })
	return x
}

func (x *tmuxTerminal) tmux(args ...string) string {
	x.t.Helper()
	out, err := exec.Command("tmux", append([]string{"-S", x.socket}, args...)...).CombinedOutput()
	if err != nil {
		x.t.Fatalf("tmux %v: %v: %s", args, err, out)
	}
	return string(out)
}

// press sends keys by tmux's names.
func (x *tmuxTerminal) press(keys ...string) {
	x.t.Helper()
	x.tmux(append([]string{"send-keys", "-t", "top"}, keys...)...)
}

// shows waits until the terminal shows all texts, and checks the size of what it shows.
func (x *tmuxTerminal) shows(columns, lines int, texts ...string) {
	x.t.Helper()
	for end := time.Now().Add(clitest.Timeout); ; time.Sleep(50 * time.Millisecond) {
		screen, missing := x.tmux("capture-pane", "-p", "-t", "top"), ""
		for _, text := range texts {
			if !strings.Contains(screen, text) {
				missing = text
			}
		}
		if missing != "" && time.Now().Before(end) {
			continue
		}
		if missing != "" {
			x.t.Fatalf("no %q in\n%s", missing, screen)
		}
		all := strings.Split(strings.TrimRight(screen, "\n"), "\n")
		for _, l := range all {
			if runewidth.StringWidth(l) > columns || len(all) != lines {
				x.t.Errorf("expected %d columns and %d lines, found %d lines:\n%s", columns, lines, len(all), screen)
				break
			}
		}
		return
	}
}

// ends presses a key and waits until the command has ended.
func (x *tmuxTerminal) ends(key string) {
	x.t.Helper()
	x.press(key)
	for end := time.Now().Add(clitest.Timeout); exec.Command("tmux", "-S", x.socket, "has-session", "-t", "top").Run() == nil; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			x.t.Fatalf("does not end:\n%s", x.tmux("capture-pane", "-p", "-t", "top"))
		}
	}
}

// The view draws on a real terminal and reads its keys.
func TestViewInARealTerminal(t *testing.T) {
	if testing.Short() {
		t.Skip("starts tmux")
	}
	t.Setenv("SOFTRDMA_CONTROL_DIR", filepath.Join(clitest.ShortDir(t), "control"))
	x := startTerminal(t, "80", "24", clitest.Command(t), "top", "--interval", "100ms")
	x.shows(80, 24, "No program of this user has an RDMA device")
	address := clitest.ServerAddress(t)
	clitest.Start(t, "rping", "-s", "-P", "-a", address)
	x.shows(80, 24, "1 program, 1 device", address)
	x.press("?")
	x.shows(80, 24, "reverse the order", "any key: back")
	x.press("x")
	x.shows(80, 24, "1 program, 1 device")
	x.ends("q")
}
