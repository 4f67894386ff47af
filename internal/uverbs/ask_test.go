//go:build linux

package uverbs

import (
	stdcontext "context"
	"encoding/json"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"testing"

	"softrdma/internal/control"
	"softrdma/internal/testenv"
	"softrdma/internal/uverbs/client"
)

// A program that does not answer, for example because it is stopped, does not hide the objects of those
// that are asked beside it.
func TestProgramThatDoesNotAnswerHidesNoOther(t *testing.T) {
	s := newServer(t, "127.14.4.62")
	dir := testenv.SocketDir(t)
	t.Setenv("SOFTRDMA_CONTROL_DIR", dir)
	const stopped, running = 1 << 30, 1<<30 + 1
	var list []*slot
	for _, pid := range []int{stopped, running} {
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, strconv.Itoa(pid)), Net: "unix"})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		list = append(list, &slot{device: s.devices[0], process: &client.Process{PID: pid}})
		if pid == stopped {
			continue // no process accepts
		}
		answer := []control.Info{{GUID: s.devices[0].Verbs.Query().NodeGUID.String()}}
		go func() {
			_ = http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(answer) }))
		}()
	}
	ctx, cancel := stdcontext.WithTimeout(t.Context(), timeLimit)
	defer cancel()
	answers := ask(ctx, new(control.Asker), list, func(x *slot, _ control.Socket, _ control.Info) (int, error) {
		cancel() // the other has not answered until now
		return x.process.PID, nil
	})
	if len(answers) != 1 || answers[0] != running {
		t.Errorf("expected an answer of %d, found %v", running, answers)
	}
}
