package sampler

import (
	"encoding/json"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"softrdma/internal/control"
	"softrdma/internal/object"
	"softrdma/internal/testenv"
)

// A device that does not say what it has is shown with what its process says, and the report says so. One
// that has closed, and one that no program uses, are left out.
func TestDeviceThatDoesNotAnswerIsShown(t *testing.T) {
	dir := testenv.SocketDir(t)
	t.Setenv("SOFTRDMA_CONTROL_DIR", dir)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, "4711"), Net: "unix"})
	if err != nil {
		t.Skip("SKIPPED: no Unix sockets: ", err)
	}
	defer l.Close()
	go func() {
		_ = http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case "/v1/process":
				_ = json.NewEncoder(w).Encode(control.Process{PID: 4711, Program: "program", Devices: []control.Info{
					{Name: "well"}, {Name: "stuck", Sent: 8}, {Name: "closed"}, {Name: "unused", Unused: true},
				}})
			case "/v1/devices/well/objects", "/v1/devices/unused/objects":
				_ = json.NewEncoder(w).Encode(object.List{QPs: []object.QP{{Number: 17}}})
			case "/v1/devices/stuck/objects":
				control.Refuse(w, http.StatusServiceUnavailable, "busy")
			default:
				control.Refuse(w, http.StatusNotFound, "device: expected another")
			}
		}))
	}()
	r := Compare(nil, new(Sampler).Take(t.Context(), time.Minute))
	if len(r.Processes) != 1 {
		t.Fatalf("%+v", r)
	}
	var names []string
	for _, d := range r.Processes[0].Devices {
		names = append(names, d.Name)
		if n := len(d.QPs); n == 1 != (d.Name == "well") || d.Name == "stuck" && d.Sent != 8 {
			t.Errorf("%s: %d queue pairs, %d bytes", d.Name, n, d.Sent)
		}
	}
	if !slices.Equal(names, []string{"well", "stuck"}) {
		t.Errorf("found the devices %q, expected well and stuck", names)
	}
	if len(r.Errors) != 1 || !strings.Contains(r.Errors[0], "process 4711: busy (objects of device stuck)") {
		t.Errorf("errors: %q", r.Errors)
	}
}
