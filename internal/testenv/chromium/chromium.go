// Package chromium drives Debian's Chromium in tests, without a screen, by the DevTools protocol.
package chromium

import (
	"bufio"
	"bytes"
	_ "embed" // the script
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"softrdma/internal/testenv"
)

// A Tab is a page in a Chromium of its own, with a window of 1280 × 720. Messages go over two pipes; each ends
// with a zero byte. An exception in the page, and what its content security policy refuses, fail the test.
type Tab struct {
	t       testing.TB
	to      *os.File
	from    *bufio.Reader
	last    int
	session string
}

// timeLimit bounds the use of a tab.
const timeLimit = 8 * time.Minute

// NewTab starts Chromium, or skips the test where it is not installed. The test ends it.
func NewTab(t testing.TB) *Tab {
	t.Helper()
	testenv.Programs(t, "chromium")
	toRead, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	from, fromWrite, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--disable-dev-shm-usage",
		"--remote-debugging-pipe", "--user-data-dir="+t.TempDir(), "about:blank")
	cmd.ExtraFiles = []*os.File{toRead, fromWrite} // are its 3 and 4
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	toRead.Close()
	fromWrite.Close()
	b := &Tab{t: t, to: to, from: bufio.NewReaderSize(from, 1<<20)}
	_ = from.SetReadDeadline(time.Now().Add(timeLimit))
	t.Cleanup(func() {
		// Chromium closes its files and its children before the pipe ends.
		_, _ = to.WriteString(`{"id":1,"method":"Browser.close"}` + "\x00")
		_ = from.SetReadDeadline(time.Now().Add(30 * time.Second))
		if _, err := io.Copy(io.Discard, from); err != nil {
			_ = cmd.Process.Kill()
		}
		_ = cmd.Wait()
		to.Close()
		from.Close()
	})
	var made struct{ TargetID, SessionID string }
	b.Call("Target.createTarget", map[string]any{"url": "about:blank"}, &made)
	b.Call("Target.attachToTarget", map[string]any{"targetId": made.TargetID, "flatten": true}, &made)
	b.session = made.SessionID
	b.Call("Emulation.setDeviceMetricsOverride", map[string]any{"width": 1280, "height": 720, "deviceScaleFactor": 1, "mobile": false}, nil)
	b.Call("Page.enable", nil, nil)
	b.Call("Runtime.enable", nil, nil)
	b.Call("Log.enable", nil, nil)
	return b
}

// A message is one of the DevTools protocol.
type message struct {
	ID        int             `json:"id,omitempty"`
	SessionID string          `json:"sessionId,omitempty"`
	Method    string          `json:"method,omitempty"`
	Params    any             `json:"params,omitempty"`
	Result    json.RawMessage `json:"result,omitempty"`
	Error     *struct {
		Message string `json:"message"`
	} `json:"error,omitempty"`
}

// Call calls a method, and reads its result into out unless that is nil.
func (b *Tab) Call(method string, params, out any) {
	b.t.Helper()
	b.last++
	m, err := json.Marshal(message{ID: b.last, SessionID: b.session, Method: method, Params: params})
	if err != nil {
		b.t.Fatal(err)
	}
	if _, err := b.to.Write(append(m, 0)); err != nil {
		b.t.Fatalf("%s: %v", method, err)
	}
	for id := b.last; ; {
		m := b.read(method)
		switch {
		case m.ID != id:
		case m.Error != nil:
			b.t.Fatalf("%s: %s", method, m.Error.Message)
		case out != nil:
			if err := json.Unmarshal(m.Result, out); err != nil {
				b.t.Fatalf("%s: %v", method, err)
			}
			return
		default:
			return
		}
	}
}

// read reads the next message. An exception in the page fails the test.
func (b *Tab) read(waiting string) (m message) {
	b.t.Helper()
	text, err := b.from.ReadBytes(0)
	if err != nil {
		b.t.Fatalf("%s: %v", waiting, err)
	}
	if err := json.Unmarshal(text[:len(text)-1], &m); err != nil {
		b.t.Fatalf("%s: %v", waiting, err)
	}
	if m.Method == "Runtime.exceptionThrown" || m.Method == "Log.entryAdded" && bytes.Contains(text, []byte("Content Security Policy")) {
		b.t.Errorf("in the page: %v", m.Params)
	}
	return m
}

// Event waits for an event.
func (b *Tab) Event(method string) {
	b.t.Helper()
	for b.read(method).Method != method {
	}
}

// Open opens a URL, and waits until it is loaded.
func (b *Tab) Open(url string) {
	b.t.Helper()
	b.Call("Page.navigate", map[string]any{"url": "about:blank"}, nil)
	b.Event("Page.loadEventFired")
	b.Call("Page.navigate", map[string]any{"url": url}, nil)
	b.Event("Page.loadEventFired")
}

// Evaluate runs an expression, whose promise it awaits, and reads its value into out unless that is nil.
func (b *Tab) Evaluate(expression string, out any) {
	b.t.Helper()
	var r struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails *struct {
			Text      string
			Exception struct{ Description string }
		}
	}
	b.Call("Runtime.evaluate", map[string]any{"expression": expression, "awaitPromise": true, "returnByValue": true}, &r)
	if e := r.ExceptionDetails; e != nil {
		b.t.Fatalf("%.200s: %s %s", expression, e.Text, e.Exception.Description)
	}
	if out != nil {
		if err := json.Unmarshal(r.Result.Value, out); err != nil {
			b.t.Fatalf("%.200s: %v in %s", expression, err, r.Result.Value)
		}
	}
}

// Await waits until an expression is true.
func (b *Tab) Await(expression string) {
	b.t.Helper()
	var found string
	b.Evaluate(fmt.Sprintf(`new Promise((done) => {
		const end = Date.now() + 60000;
		const look = () => (%s) ? done("") : Date.now() > end ? done(document.body.innerText) : setTimeout(look, 20);
		look();
	})`, expression), &found)
	if found != "" {
		b.Screenshot("failed")
		b.t.Fatalf("expected %s, found\n%s", expression, found)
	}
}

// Shows waits until the page has all of some texts, at most a minute.
func (b *Tab) Shows(words ...string) {
	b.t.Helper()
	list, err := json.Marshal(words)
	if err != nil {
		b.t.Fatal(err)
	}
	b.Await(fmt.Sprintf(`%s.every((w) => document.body.outerHTML.replace(/<[^>]*>/g, " ").replace(/\s+/g, " ").includes(w))`, list))
}

// Scheme sets light or dark colors.
func (b *Tab) Scheme(name string) {
	b.t.Helper()
	b.Call("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": name}}}, nil)
}

// Key presses a key, with its code for those that Chromium itself acts on.
func (b *Tab) Key(key string, code int) {
	b.t.Helper()
	for _, kind := range []string{"rawKeyDown", "keyUp"} {
		b.Call("Input.dispatchKeyEvent", map[string]any{"type": kind, "key": key, "windowsVirtualKeyCode": code}, nil)
	}
}

// Screenshot saves a picture in the directory of SOFTRDMA_SCREENSHOTS, if that is set.
func (b *Tab) Screenshot(name string) {
	b.t.Helper()
	dir := os.Getenv("SOFTRDMA_SCREENSHOTS")
	if dir == "" {
		return
	}
	var picture struct{ Data string }
	b.Call("Page.captureScreenshot", map[string]any{"format": "png"}, &picture)
	data, err := base64.StdEncoding.DecodeString(picture.Data)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, name+".png"), data, 0o600)
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

// Metrics returns figures of the page's performance by name.
func (b *Tab) Metrics() map[string]float64 {
	b.t.Helper()
	var all struct {
		Metrics []struct {
			Name  string
			Value float64
		}
	}
	b.Call("Performance.getMetrics", nil, &all)
	m := make(map[string]float64)
	for _, x := range all.Metrics {
		m[x.Name] = x.Value
	}
	return m
}

//go:embed contrast.js
var contrast string

// Contrast returns pairs of colors of what is visible that are too alike by WCAG 2.2: text and its ground below
// 4.5:1 (3:1 if it is large), and edges of controls and lines of drawings below 3:1.
func (b *Tab) Contrast() []string {
	b.t.Helper()
	var r struct {
		Compared int
		Found    []string
	}
	b.Evaluate(contrast, &r)
	if r.Compared < 3 {
		b.t.Errorf("contrast: compared %d pairs of colors, expected more", r.Compared)
	}
	return r.Found
}
