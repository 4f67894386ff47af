package control

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"softrdma/faults"
	"softrdma/internal/object"
	"softrdma/internal/qp"
	"softrdma/internal/reason"
	"softrdma/internal/recorder"
)

// A fake is a device with rules of faults.
type fake struct {
	x      *faults.Injector
	record recorder.Recorder
	mu     sync.Mutex // guards record
}

func newFake(t *testing.T) *fake {
	t.Helper()
	x, err := faults.New(faults.Rules{}, "lo")
	if err != nil {
		t.Fatal(err)
	}
	return &fake{x: x}
}

func (f *fake) Info() Info { return Info{Protocol: "RoCE v2", Counters: map[string]uint64{"X": 7}} }
func (f *fake) Sample() object.Sample {
	return object.Sample{Latencies: []time.Duration{5}}
}
func (f *fake) Objects() object.List {
	return object.List{QPs: []object.QP{{Number: 17, State: "RTS"}}}
}
func (f *fake) Follow() Follower              { return &fakeFollower{of: f} }
func (f *fake) Faults() *faults.Injector      { return f.x }
func (f *fake) WriteRecord(w io.Writer) error { _, err := io.WriteString(w, "a record\n"); return err }
func (f *fake) WriteRecordCapture(w io.Writer) error {
	_, err := w.Write([]byte{10, 13, 13, 10})
	return err
}

// A fakeFollower reads what a test has recorded.
type fakeFollower struct {
	of *fake
	at recorder.Cursor
}

func (f *fakeFollower) Next() (all []recorder.Record, lost uint64, now time.Duration) {
	f.of.mu.Lock()
	defer f.of.mu.Unlock()
	all, lost = f.of.record.Since(&f.at)
	return all, lost, 0
}

// happened records changes of state.
func (f *fake) happened(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for range n {
		f.record.Add(recorder.Record{Kind: recorder.State, QPN: 17, From: uint8(qp.RTS), To: uint8(qp.Err), Detail: reason.Detail{Reason: reason.AckTimeout}})
	}
}

// answering makes this process answer for devices in a directory of the test.
func answering(t *testing.T, names ...string) (Socket, []*fake) {
	t.Helper()
	t.Setenv("SOFTRDMA_CONTROL_DIR", filepath.Join(t.TempDir(), "control"))
	var all []*fake
	for _, n := range names {
		f := newFake(t)
		all = append(all, f)
		t.Cleanup(Add(n, f))
	}
	s, err := Sockets()
	if err != nil || len(s) != 1 || s[0].PID != os.Getpid() {
		t.Fatalf("sockets %v, %v", s, err)
	}
	return s[0], all
}

func ask(t *testing.T, s Socket, method, path, body string, out any) {
	t.Helper()
	if err := s.Ask(t.Context(), method, path, []byte(body), out); err != nil {
		t.Fatal(err)
	}
}

func TestProcessAnswersWhileItHasDevices(t *testing.T) {
	_, _ = answering(t, "127.0.0.1")
	other := newFake(t)
	remove := Add("127.0.0.1", other)
	all, err := Processes(t.Context())
	if err != nil || len(all) != 1 || all[0].Version != Version || len(all[0].Devices) != 2 || all[0].Devices[1].Name != "127.0.0.1-2" {
		t.Fatalf("%+v, %v", all, err)
	}
	remove()
	if all, err = Processes(t.Context()); err != nil || len(all) != 1 || len(all[0].Devices) != 1 {
		t.Fatalf("%+v, %v", all, err)
	}
	process.remove(process.list()[0].Device)
	if all, err := Sockets(); err != nil || len(all) != 0 {
		t.Errorf("sockets without devices: %v, %v", all, err)
	}
}

func TestFabricAnswersQuestions(t *testing.T) {
	t.Setenv("SOFTRDMA_CONTROL_DIR", filepath.Join(t.TempDir(), "control"))
	remove := AddFabric("blue", func(q []byte) ([]byte, error) {
		if string(q) != `{"verb":"status"}` {
			return nil, errors.New("expected status")
		}
		return []byte(`{"now":5}`), nil
	})
	defer remove()
	all, err := Processes(t.Context())
	if err != nil || len(all) != 1 || !slices.Equal(all[0].Fabrics, []string{"blue"}) || len(all[0].Devices) != 0 {
		t.Fatalf("%+v, %v", all, err)
	}
	var reply struct{ Now int }
	if ask(t, all[0].Socket, http.MethodPost, "/v1/fabrics/blue", `{"verb":"status"}`, &reply); reply.Now != 5 {
		t.Errorf("%+v", reply)
	}
	for path, want := range map[string]string{"/v1/fabrics/red": `expected one of ["blue"], found "red"`, "/v1/fabrics/blue": "expected status"} {
		if err := all[0].Ask(t.Context(), http.MethodPost, path, []byte("{}"), &reply); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, expected %q", path, err, want)
		}
	}
	remove()
	if all, err := Sockets(); err != nil || len(all) != 0 {
		t.Errorf("sockets without fabrics: %v, %v", all, err)
	}
}

func TestSocketsOfEndedProcessesAreRemoved(t *testing.T) {
	_, _ = answering(t, "127.0.0.1")
	l, err := listenUnix(filepath.Join(Directory(), "999999999"))
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if all, err := Processes(t.Context()); err != nil || len(all) != 1 {
		t.Fatalf("%v, %v", all, err)
	}
	if s, err := Sockets(); err != nil || len(s) != 1 {
		t.Errorf("%v, %v", s, err)
	}
	if l, err = listenUnix(filepath.Join(Directory(), "999999998")); err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	Ended(999999998) // another one has the number
	if s, err := Sockets(); err != nil || len(s) != 2 {
		t.Errorf("while a process answers: %v, %v", s, err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	Ended(999999998)
	if s, err := Sockets(); err != nil || len(s) != 1 {
		t.Errorf("of a process that was killed: %v, %v", s, err)
	}
}

func TestDeviceDescribesItself(t *testing.T) {
	s, _ := answering(t, "127.0.0.1", "ib:f/h1")
	var i Info
	if ask(t, s, http.MethodGet, "/v1/devices/ib:f%2Fh1", "", &i); i.Name != "ib:f/h1" || i.Counters["X"] != 7 {
		t.Errorf("%+v", i)
	}
	var l object.List
	if ask(t, s, http.MethodGet, "/v1/devices/127.0.0.1/objects", "", &l); len(l.QPs) != 1 || l.QPs[0].Number != 17 {
		t.Errorf("%+v", l)
	}
	for path, want := range map[string]string{"record": "a record\n", "record?format=pcapng": "\n\r\r\n"} {
		var b bytes.Buffer
		if ask(t, s, http.MethodGet, "/v1/devices/127.0.0.1/"+path, "", &b); b.String() != want {
			t.Errorf("%s: %q", path, &b)
		}
	}
}

const loss = `{"seed":7,"rules":[{"name":"loss","action":"drop","select":{"direction":"sent","nth":2}}]}`

func TestRulesOfRunningDevicesChange(t *testing.T) {
	s, f := answering(t, "127.0.0.1", "127.0.0.2")
	var got []Faults
	ask(t, s, http.MethodPut, "/v1/devices/all/faults", loss, &got)
	if len(got) != 2 || got[0].Seed != 7 || len(got[1].Rules) != 1 || got[1].Rules[0].Name != "loss" {
		t.Fatalf("%+v", got)
	}
	ask(t, s, http.MethodPost, "/v1/devices/127.0.0.2/faults", loss, &got)
	if len(got) != 1 || len(got[0].Rules) != 2 || len(f[0].x.Rules().Rules) != 1 || len(f[1].x.Rules().Rules) != 2 {
		t.Fatalf("%+v", got)
	}
	var one Faults
	if ask(t, s, http.MethodGet, "/v1/devices/127.0.0.1/faults", "", &one); one.Device != "127.0.0.1" || len(one.Rules) != 1 {
		t.Errorf("%+v", one)
	}
	ask(t, s, http.MethodDelete, "/v1/devices/all/faults", "", &got)
	if len(got) != 2 || len(f[0].x.Rules().Rules)+len(f[1].x.Rules().Rules) != 0 {
		t.Errorf("%+v", got)
	}
}

func TestWrongRequestsChangeNothing(t *testing.T) {
	s, f := answering(t, "127.0.0.1", "iwarp:127.0.0.1")
	f[1].x.Streams = true
	for _, x := range []struct{ method, path, body, want string }{
		{"GET", "/v1/devices/lo", "", `expected one of ["127.0.0.1" "iwarp:127.0.0.1"], found "lo"`},
		{"PUT", "/v1/devices/lo/faults", loss, `found "lo"`},
		{"PUT", "/v1/devices/all/faults", "{", "rules of faults"},
		{"PUT", "/v1/devices/all/faults", `{"rules":[{"action":"explode"}]}`, "explode"},
		{"PUT", "/v1/devices/all/faults", loss, "device iwarp:127.0.0.1: rules"},
		{"PUT", "/v1/devices/all/faults", `{"rules":[` + strings.Repeat(" ", maxBody), "request body too large"},
		{"GET", "/v1/devices/127.0.0.1/record?format=pdf", "", `expected text or pcapng, found "pdf"`},
		{"PATCH", "/v1/devices/all/faults", "", "PATCH /v1/devices/all/faults: expected"},
		{"GET", "/v2/devices", "", "expected a route"},
	} {
		var out json.RawMessage
		err := s.Ask(t.Context(), x.method, x.path, []byte(x.body), &out)
		if err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%s %s: %v, expected %q", x.method, x.path, err, x.want)
		}
	}
	if n := len(f[0].x.Rules().Rules); n != 0 {
		t.Errorf("%d rules were set", n)
	}
}

func TestDirectoryOfOthersIsRefused(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "control")
	t.Setenv("SOFTRDMA_CONTROL_DIR", dir)
	if err := os.Mkdir(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o777); err != nil { // whatever the umask
		t.Fatal(err)
	}
	defer Add("127.0.0.1", newFake(t))()
	if _, err := Processes(context.Background()); err == nil || !strings.Contains(err.Error(), "others cannot write") {
		t.Errorf("%v", err)
	}
	if e, err := os.ReadDir(dir); err != nil || len(e) != 0 {
		t.Errorf("%v, %v", e, err)
	}
}

func TestOffKeepsTheProcessFromAnswering(t *testing.T) {
	t.Setenv("SOFTRDMA_CONTROL_DIR", "off")
	defer Add("127.0.0.1", newFake(t))()
	if s, err := Sockets(); err != nil || s != nil || process.stop != nil {
		t.Errorf("%v, %v", s, err)
	}
}
