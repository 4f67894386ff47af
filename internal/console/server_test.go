package console

import (
	"encoding/json"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"softrdma/faults"
	"softrdma/internal/control"
	fabric "softrdma/internal/fabric/control"
	"softrdma/internal/object"
)

// A fake is a device of this process.
type fake struct {
	control.Device
	x      *faults.Injector
	looked atomic.Int32 // how often its objects were asked for
}

func (f *fake) Info() control.Info {
	return control.Info{Protocol: "RoCE v2", Address: "192.0.2.1:4791", State: "active", Counters: map[string]uint64{}, Time: time.Now()}
}
func (f *fake) Objects() object.List {
	f.looked.Add(1)
	return object.List{QPs: []object.QP{{Number: 17, Type: "RC", State: "RTS", Peer: hostile}}}
}
func (f *fake) Faults() *faults.Injector { return f.x }

const (
	token   = "the token"
	hostile = `</script><script>alert(1)</script>`
	local   = "127.0.0.1:8080"
)

// answering makes this process answer for a device in a directory of the test, and returns a server.
func answering(t *testing.T, name string) (*Server, *fake) {
	t.Helper()
	t.Setenv("SOFTRDMA_CONTROL_DIR", filepath.Join(t.TempDir(), "control"))
	x, err := faults.New(faults.Rules{}, "lo")
	if err != nil {
		t.Fatal(err)
	}
	f := &fake{x: x}
	t.Cleanup(control.Add(name, f))
	s := New(token, netip.MustParseAddrPort(local), "")
	s.fresh = time.Hour
	return s, f
}

// ask sends a request with the token, and reads the reply into out unless that is nil.
func ask(t *testing.T, s *Server, method, path, body string, out any) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest(method, "http://"+local+path, strings.NewReader(body))
	r.Header.Set(TokenHeader, token)
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	if out != nil {
		if err := json.Unmarshal(w.Body.Bytes(), out); err != nil || w.Code != http.StatusOK {
			t.Fatalf("%s %s: %d %s", method, path, w.Code, w.Body)
		}
	}
	return w
}

func unmarshal(t *testing.T, b []byte, out any) {
	t.Helper()
	if err := json.Unmarshal(b, out); err != nil {
		t.Fatalf("%v in %s", err, b)
	}
}

func deviceRoute(name, what string) string {
	return "/api/processes/" + strconv.Itoa(os.Getpid()) + "/devices/" + url.PathEscape(name) + "/" + what
}

func TestRoutesNeedTheToken(t *testing.T) {
	s, f := answering(t, "lo")
	for _, route := range []string{"/api/snapshot", "/api/scenarios", deviceRoute("lo", "objects"), deviceRoute("lo", "faults"), "/api/", "/api"} {
		for found, want := range map[string]string{"": "found none", "another": "found another", token + " ": "found another"} {
			r := httptest.NewRequest(http.MethodGet, "http://"+local+route, nil)
			if found != "" {
				r.Header.Set(TokenHeader, found)
			}
			w := httptest.NewRecorder()
			s.ServeHTTP(w, r)
			if w.Code != http.StatusUnauthorized || !strings.Contains(w.Body.String(), want) {
				t.Errorf("%s with token %q: %d %s", route, found, w.Code, w.Body)
			}
		}
	}
	if n := f.looked.Load(); n != 0 {
		t.Errorf("the device was asked %d times without the token", n)
	}
}

func TestRequestsForOtherNamesAreRefused(t *testing.T) {
	loopback := New(token, netip.MustParseAddrPort(local), "")
	other := New(token, netip.MustParseAddrPort("192.0.2.1:8080"), "node7")
	for _, c := range []struct {
		host          string
		local, listen bool
	}{
		{"127.0.0.1:8080", true, true},
		{"localhost:8080", true, true},
		{"LOCALHOST", true, true},
		{"[::1]:8080", true, true},
		{"192.0.2.1:8080", false, true},
		{"node7:8080", false, true},
		{"attacker.example:8080", false, false},
		{"localhost.attacker.example", false, false},
		{"127.0.0.1.attacker.example:8080", false, false},
		{"", false, false},
	} {
		for s, want := range map[*Server]bool{loopback: c.local, other: c.listen} {
			r := httptest.NewRequest(http.MethodGet, "http://x/", nil)
			r.Host = c.host
			w := httptest.NewRecorder()
			s.ServeHTTP(w, r)
			if (w.Code == http.StatusOK) != want || w.Code != http.StatusOK && w.Code != http.StatusForbidden {
				t.Errorf("Host %q, loopback %v: %d, expected to be served: %v", c.host, s == loopback, w.Code, want)
			}
		}
	}
}

func TestPageHasNothingOfOthers(t *testing.T) {
	s := New(token, netip.MustParseAddrPort(local), "")
	w := ask(t, s, http.MethodGet, "/", "", nil)
	for name, want := range map[string]string{
		"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; frame-ancestors 'none'",
		"X-Content-Type-Options":  "nosniff", "Referrer-Policy": "no-referrer", "Cache-Control": "no-store",
	} {
		if !strings.HasPrefix(w.Header().Get(name), want) {
			t.Errorf("%s: expected %q, found %q", name, want, w.Header().Get(name))
		}
	}
	if w.Code != http.StatusOK || strings.Contains(w.Header().Get("Content-Security-Policy"), "unsafe") {
		t.Errorf("%d %v", w.Code, w.Header())
	}
	script := regexp.MustCompile(`innerHTML|outerHTML|insertAdjacent|document\.write|\beval\(|new Function|srcdoc|javascript:`)
	foreign := regexp.MustCompile(`https?://[a-z0-9.]+`)
	linked := regexp.MustCompile(`(?:from|src=|href=) ?"([a-z./]+)"`)
	err := fs.WalkDir(page, "page", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := page.ReadFile(name)
		if found := script.FindString(string(b)); found != "" {
			t.Errorf("%s: expected texts only, found %q", name, found)
		}
		for _, found := range foreign.FindAllString(string(b), -1) {
			if found != "http://www.w3.org" {
				t.Errorf("%s: expected no other host, found %q", name, found)
			}
		}
		for _, m := range linked.FindAllStringSubmatch(string(b), -1) {
			w := ask(t, s, http.MethodGet, "/"+strings.TrimPrefix(m[1], "./"), "", nil)
			if kind := w.Header().Get("Content-Type"); w.Code != http.StatusOK || strings.HasSuffix(m[1], ".js") && !strings.HasPrefix(kind, "text/javascript") {
				t.Errorf("%s: %s: %d %s", name, m[1], w.Code, kind)
			}
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func TestNamesOfProgramsAreData(t *testing.T) {
	s, _ := answering(t, hostile)
	w := ask(t, s, http.MethodGet, "/api/snapshot", "", nil)
	if w.Header().Get("Content-Type") != "application/json" || strings.Contains(w.Body.String(), "<") {
		t.Errorf("%v\n%s", w.Header(), w.Body)
	}
	var snap struct {
		Processes []struct {
			PID     int
			Devices []struct {
				Name string
				QPs  []object.QP `json:"queue_pairs"`
			}
		}
	}
	ask(t, s, http.MethodGet, "/api/snapshot", "", &snap)
	if p := snap.Processes; len(p) != 1 || p[0].PID != os.Getpid() || p[0].Devices[0].Name != hostile || p[0].Devices[0].QPs[0].Peer != hostile {
		t.Errorf("%+v", snap)
	}
	var l object.List
	ask(t, s, http.MethodGet, deviceRoute(hostile, "objects"), "", &l)
	if len(l.QPs) != 1 || l.QPs[0].Number != 17 {
		t.Errorf("%+v", l)
	}
}

// Several pages cost a program no more than one.
func TestPagesShareSamples(t *testing.T) {
	s, f := answering(t, "lo")
	for range 3 {
		ask(t, s, http.MethodGet, "/api/snapshot", "", &struct{}{})
	}
	if n := f.looked.Load(); n != 1 {
		t.Errorf("the device was asked %d times, expected once", n)
	}
	s.fresh = 0
	var snap struct{ Seconds float64 }
	ask(t, s, http.MethodGet, "/api/snapshot", "", &snap)
	if n := f.looked.Load(); n != 2 || snap.Seconds <= 0 {
		t.Errorf("the device was asked %d times, expected twice; %v s since the sample before", n, snap.Seconds)
	}
}

func TestScenariosAreSwitchedOnAndOff(t *testing.T) {
	s, f := answering(t, "lo")
	own := faults.Rules{Seed: 7, Rules: []faults.Rule{{Name: "own", Action: faults.Drop}}}
	if err := f.x.Set(own); err != nil {
		t.Fatal(err)
	}
	expect := func(method, what string, rules int, on ...string) {
		t.Helper()
		var d deviceFaults
		ask(t, s, method, deviceRoute("lo", what), "", &d)
		if !slices.Equal(d.On, on) || len(d.Rules) != rules || len(f.x.Rules().Rules) != rules {
			t.Errorf("%s %s: %d rules, %d of the device, on %q; expected %d and %q", method, what, len(d.Rules), len(f.x.Rules().Rules), d.On, rules, on)
		}
	}
	lossy, _ := scenarioRules("lossy-link")
	n := len(lossy.Rules)
	expect(http.MethodGet, "faults", 1)
	expect(http.MethodPut, "faults/lossy-link", 1+n, "lossy-link")
	expect(http.MethodPut, "faults/lossy-link", 1+n, "lossy-link") // is on
	expect(http.MethodDelete, "faults/lossy-link", 1)
	expect(http.MethodDelete, "faults/lossy-link", 1) // is off
	if left := f.x.Rules(); left.Rules[0].Name != "own" || left.Seed != 7 {
		t.Errorf("%+v", left)
	}
	expect(http.MethodPut, "faults/lossy-link", 1+n, "lossy-link")
	expect(http.MethodDelete, "faults", 0)
}

func TestEachScenarioCanBeSwitchedOn(t *testing.T) {
	for _, c := range allScenarios() {
		if _, ok := scenarioRules(c.Name); !ok || c.Summary == "" || c.YAML == "" {
			t.Errorf("%+v", c)
		}
	}
}

func TestFabricsAreAskedForWhatThePageShows(t *testing.T) {
	s, _ := answering(t, "lo")
	var asked []string
	t.Cleanup(control.AddFabric("blue", func(q []byte) ([]byte, error) {
		var r fabric.Request
		if err := json.Unmarshal(q, &r); err != nil {
			return nil, err
		}
		asked = append(asked, r.Verb)
		return json.Marshal(fabric.Reply{Status: &fabric.Status{Switches: 3}, Links: []fabric.Link{{State: fabric.LinkActive}}})
	}))
	var snap struct{ Fabrics []Fabric }
	ask(t, s, http.MethodGet, "/api/snapshot", "", &snap)
	if f := snap.Fabrics; len(f) != 1 || f[0].Name != "blue" || f[0].Status.Switches != 3 || f[0].Links[0].State != fabric.LinkActive {
		t.Errorf("%+v", snap)
	}
	route := "/api/processes/" + strconv.Itoa(os.Getpid()) + "/fabrics/blue"
	ask(t, s, http.MethodPost, route, `{"verb": "link-down", "args": ["node-0"]}`, &struct{}{})
	if w := ask(t, s, http.MethodPost, route, `{"verb": "sm", "args": ["off"]}`, nil); w.Code != http.StatusBadRequest {
		t.Errorf("sm: %d %s", w.Code, w.Body)
	}
	if want := []string{"status", "links", "link-down"}; !slices.Equal(asked, want) {
		t.Errorf("asked %q, expected %q", asked, want)
	}
}

func TestWrongRequestsAreRefusedInOneLine(t *testing.T) {
	s, _ := answering(t, "lo")
	for _, c := range []struct {
		method, route, body string
		code                int
		want                string
	}{
		{http.MethodGet, "/api/nothing", "", 404, "expected a route"},
		{http.MethodPost, "/api/snapshot", "", 404, "with a method"},
		{http.MethodGet, "/api/processes/1x/devices/lo/objects", "", 404, `found "1x"`},
		{http.MethodGet, deviceRoute("eth9", "objects"), "", 502, `expected one of ["lo"], found "eth9"`},
		{http.MethodGet, deviceRoute("lo", "qps/4294967295"), "", 400, "24 bits"},
		{http.MethodPut, deviceRoute("lo", "faults/dance"), "", 404, `found "dance"`},
		{http.MethodPost, "/api/processes/" + strconv.Itoa(os.Getpid()) + "/fabrics/blue", "{", 400, "verb and args"},
		{http.MethodPost, "/", "", 405, "expected GET, found POST"},
	} {
		w := ask(t, s, c.method, c.route, c.body, nil)
		var refusal struct{ Error string }
		b, _ := io.ReadAll(w.Body)
		if err := json.Unmarshal(b, &refusal); err != nil || w.Code != c.code || !strings.Contains(refusal.Error, c.want) || strings.Contains(refusal.Error, "\n") {
			t.Errorf("%s %s: %d %s, expected %d and %q", c.method, c.route, w.Code, b, c.code, c.want)
		}
	}
}
