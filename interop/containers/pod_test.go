//go:build interop && linux

package containers

import (
	"strings"
	"testing"
	"time"
)

// Containers of a pod share network and IPC, as Kubernetes has it, and with it the server of the first program.
func TestSecondContainerOfAPodSaysWhyItHasNoDevice(t *testing.T) {
	if !inside(t) {
		return
	}
	e := newEngine(t)
	e.server(hostImage, concat(auto, []string{"--ipc", "shareable"}), "exec ibv_rc_pingpong -g 1")
	for range 100 {
		out, err := run(t, 10*time.Second, append(e.podman, "logs", "server")...)
		if err == nil && strings.Contains(out, "local address") {
			break
		}
	}
	second := *e
	second.network = "container:server"
	for _, c := range []struct {
		name   string
		flags  []string
		prints string
	}{
		{"IPC", []string{"--ipc", "container:server"}, "CLIENT_MEMORY"},
		{"IPC and processes", []string{"--ipc", "container:server", "--pid", "container:server"}, "PORT_ACTIVE"},
		{"network only", nil, "already in use by another device"},
	} {
		out, err := second.run(hostImage, concat(auto, c.flags), "ibv_devinfo 2>&1; true")
		if err != nil || !strings.Contains(out, c.prints) || strings.Count(out, "softrdma:") > 1 {
			t.Errorf("%s: %v, expected %q, found:\n%s", c.name, err, c.prints, out)
		}
	}
}
