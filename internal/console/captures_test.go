package console

import (
	"bytes"
	"fmt"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"
)

// golden has packets of two machines with Linux's Soft RoCE.
const golden = "../../interop/suites/testdata/golden_rxe_ipv4.pcapng"

// send opens captures as the page does.
func send(t *testing.T, s *Server, files ...[]byte) *httptest.ResponseRecorder {
	t.Helper()
	var b bytes.Buffer
	form := multipart.NewWriter(&b)
	for i, f := range files {
		part, err := form.CreateFormFile("capture", fmt.Sprintf("%d.pcapng", i))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := part.Write(f); err != nil {
			t.Fatal(err)
		}
	}
	if err := form.Close(); err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest(http.MethodPost, "http://"+local+"/api/captures", &b)
	r.Header.Set(TokenHeader, token)
	r.Header.Set("Content-Type", form.FormDataContentType())
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

func read(t *testing.T, w *httptest.ResponseRecorder) (o opened) {
	t.Helper()
	if w.Code != http.StatusOK {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	unmarshal(t, w.Body.Bytes(), &o)
	return o
}

func TestCapturesAreDrawnAsLadders(t *testing.T) {
	s, _ := answering(t, "lo")
	file, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	o := read(t, send(t, s, file))
	if c := o.Captures; len(c) != 1 || c[0].Name != "0.pcapng" || c[0].Packets != 217 || c[0].Faults == 0 || c[0].Error != "" {
		t.Errorf("%+v", c)
	}
	faults, refused := 0, 0
	for _, c := range o.Ladder.Connections {
		faults += c.Faults
		for _, r := range c.Rungs {
			if r.Fault && strings.Contains(strings.Join(r.Notes, " "), "this packet is refused") && len(r.Numbers) == 1 && r.Numbers[0] > 0 {
				refused++
			}
		}
	}
	if faults == 0 || refused == 0 {
		t.Errorf("%d faults, %d refused packets", faults, refused)
	}

	o = read(t, send(t, s, file, file[:len(file)/2]))
	lost := 0
	for _, c := range o.Ladder.Connections {
		for _, r := range c.Rungs {
			if !r.Received && len(r.Numbers) == 2 {
				lost++
			}
		}
	}
	if c := o.Captures; len(c) != 2 || c[1].Error == "" || c[1].Packets == 0 || lost == 0 {
		t.Errorf("%+v, %d lost packets", c, lost)
	}
}

func TestOtherFilesAreRefusedInOneLine(t *testing.T) {
	s, _ := answering(t, "lo")
	defer func(n int64) { maxCaptures = n }(maxCaptures)
	maxCaptures = 1 << 20
	file, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		files [][]byte
		code  int
		want  string
	}{
		{nil, 400, "expected one or two files, found none"},
		{[][]byte{file, file, file}, 400, "expected one or two files, found more"},
		{[][]byte{[]byte("<script>")}, 400, "not a capture file"},
		{[][]byte{bytes.Repeat(file, 1+(1<<20)/len(file))}, 413, "expected at most 1 MiB together"},
	} {
		w := send(t, s, x.files...)
		var refusal struct{ Error string }
		unmarshal(t, w.Body.Bytes(), &refusal)
		if w.Code != x.code || !strings.Contains(refusal.Error, x.want) || strings.Contains(refusal.Error, "\n") {
			t.Errorf("%d %s, expected %d and %q", w.Code, w.Body, x.code, x.want)
		}
	}
	if w := ask(t, s, http.MethodPost, "/api/captures", "x", nil); w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), "expected a form") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

func TestPageKnowsTheLimitOfCaptures(t *testing.T) {
	b, err := page.ReadFile("page/captures.js")
	if err != nil || !bytes.Contains(b, fmt.Appendf(nil, "const most = %d; // MiB", maxCaptures>>20)) {
		t.Errorf("captures.js: expected a limit of %d MiB, %v", maxCaptures>>20, err)
	}
}

func TestNamesAreExplained(t *testing.T) {
	s, _ := answering(t, "lo")
	var all []explanation
	ask(t, s, http.MethodGet, "/api/explain?q=completed+work+request+0x1+with+IBV_WC_REM_ACCESS_ERR%2C+NAK_REMOTE_ACCESS", "", &all)
	if len(all) != 2 || all[0].Cause == "" || all[0].Remedy == "" {
		t.Errorf("%+v", all)
	}
	for q, code := range map[string]int{"zebra": 404, strings.Repeat("x", maxQuery+1): 400} {
		if w := ask(t, s, http.MethodGet, "/api/explain?q="+q, "", nil); w.Code != code {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	}
}

// A timed has the time until which a server reads a request.
type timed struct {
	*httptest.ResponseRecorder
	until time.Time
}

// SetReadDeadline is called by http.ResponseController.
func (w *timed) SetReadDeadline(t time.Time) error {
	w.until = t
	return nil
}

// Captures may come through ssh -L, for which the time of other requests is too short.
func TestCapturesHaveTimeToArrive(t *testing.T) {
	s, _ := answering(t, "lo")
	for _, given := range []string{token, "another"} {
		r := httptest.NewRequest(http.MethodPost, "http://"+local+"/api/captures", strings.NewReader("x"))
		r.Header.Set(TokenHeader, given)
		w := &timed{ResponseRecorder: httptest.NewRecorder()}
		before := time.Now()
		if s.ServeHTTP(w, r); (w.until.Sub(before) >= captureTime) != (given == token) {
			t.Errorf("with token %s: the request may take until %v, it is %v", given, w.until, before)
		}
	}
}
