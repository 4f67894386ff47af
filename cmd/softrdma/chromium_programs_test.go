//go:build interop && linux

package main

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"image/png"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// A tab is a tab of Chromium that a test drives with the DevTools protocol, over two pipes.
type tab struct {
	t       *testing.T
	in      *os.File
	out     *bufio.Reader
	number  int
	session string
	errors  []string // of scripts, and what the content security policy has refused
}

// openTab starts Chromium. Its clock is the real one, as the page talks with a server.
func openTab(t *testing.T) *tab {
	t.Helper()
	fromTest, toChromium, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	fromChromium, toTest, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
		"--disable-dev-shm-usage", "--window-size=1280,720", "--remote-debugging-pipe", "--user-data-dir="+t.TempDir())
	cmd.ExtraFiles, cmd.WaitDelay = []*os.File{fromTest, toTest}, time.Second
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	fromTest.Close()
	toTest.Close()
	b := &tab{t: t, in: toChromium, out: bufio.NewReader(fromChromium)}
	t.Cleanup(func() {
		toChromium.Close() // which ends it
		_, _ = io.Copy(io.Discard, b.out)
		_ = cmd.Wait() // its status does not matter
		fromChromium.Close()
	})
	var target struct{ TargetID string }
	b.call("Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	var attached struct{ SessionID string }
	b.call("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &attached)
	b.session = attached.SessionID
	for _, domain := range []string{"Page", "Runtime", "Log", "DOM"} {
		b.call(domain+".enable", nil, nil)
	}
	b.call("Emulation.setDeviceMetricsOverride", map[string]any{"width": 1280, "height": 720, "deviceScaleFactor": 1, "mobile": false}, nil)
	return b
}

// call calls a method and reads its result into out, unless that is nil.
func (b *tab) call(method string, params map[string]any, out any) {
	b.t.Helper()
	b.number++
	q := map[string]any{"id": b.number, "method": method}
	if params != nil {
		q["params"] = params
	}
	if b.session != "" {
		q["sessionId"] = b.session
	}
	text, err := json.Marshal(q)
	if err != nil {
		b.t.Fatal(err)
	}
	if _, err := b.in.Write(append(text, 0)); err != nil {
		b.t.Fatal(err)
	}
	for {
		text, err := b.out.ReadBytes(0)
		if err != nil {
			b.t.Fatalf("%s: chromium has ended: %v", method, err)
		}
		var a struct {
			ID             int
			Method         string
			Params, Result json.RawMessage
			Error          *struct{ Message string }
		}
		if err := json.Unmarshal(bytes.TrimRight(text, "\x00"), &a); err != nil {
			b.t.Fatal(err)
		}
		switch {
		case a.Method == "Runtime.exceptionThrown" || a.Method == "Log.entryAdded":
			b.errors = append(b.errors, string(a.Params))
		case a.ID != b.number:
		case a.Error != nil:
			b.t.Fatalf("%s: %s", method, a.Error.Message)
		default:
			if out != nil {
				if err := json.Unmarshal(a.Result, out); err != nil {
					b.t.Fatal(err)
				}
			}
			return
		}
	}
}

// text evaluates an expression whose value is a text.
func (b *tab) text(expression string) string {
	b.t.Helper()
	var r struct {
		Result           struct{ Value any }
		ExceptionDetails *struct{ Text string }
	}
	b.call("Runtime.evaluate", map[string]any{"expression": "String(" + expression + ")", "returnByValue": true}, &r)
	if r.ExceptionDetails != nil {
		b.t.Fatalf("%s: %s", expression, r.ExceptionDetails.Text)
	}
	return fmt.Sprint(r.Result.Value)
}

// shown returns the text of what a selector finds.
func (b *tab) shown(selector string) string {
	b.t.Helper()
	return b.text("[...document.querySelectorAll(" + strconv.Quote(selector) + ")].map((e) => e.textContent).join('\\n')")
}

// until waits until an expression is true. While the page is made, parts of it may be missing.
func (b *tab) until(expression string) {
	b.t.Helper()
	for end := time.Now().Add(time.Minute); b.text("(() => { try { return "+expression+"; } catch { return false; } })()") != "true"; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			b.t.Fatalf("waited without success for %s; the page says\n%s", expression, b.shown("main, #alarm"))
		}
	}
}

// press presses keys of the keyboard.
func (b *tab) press(keys ...string) {
	b.t.Helper()
	for _, k := range keys {
		down := map[string]any{"type": "keyDown", "key": k}
		switch {
		case k == "Enter":
			down["text"], down["windowsVirtualKeyCode"] = "\r", 13
		case k == "Escape":
			down["windowsVirtualKeyCode"] = 27
		case len(k) == 1:
			down["text"] = k
		}
		b.call("Input.dispatchKeyEvent", down, nil)
		b.call("Input.dispatchKeyEvent", map[string]any{"type": "keyUp", "key": k}, nil)
	}
}

// files chooses files in an input.
func (b *tab) files(selector string, paths ...string) {
	b.t.Helper()
	var document struct{ Root struct{ NodeID int } }
	b.call("DOM.getDocument", nil, &document)
	var node struct{ NodeID int }
	b.call("DOM.querySelector", map[string]any{"nodeId": document.Root.NodeID, "selector": selector}, &node)
	b.call("DOM.setFileInputFiles", map[string]any{"nodeId": node.NodeID, "files": paths}, nil)
}

// screenshot checks that the view fits in the window, and looks different in light and dark. With
// SOFTRDMA_SCREENSHOTS=DIRECTORY the pictures stay there.
func (b *tab) screenshot(name string) {
	b.t.Helper()
	if size := b.text("[document.documentElement.scrollWidth, document.documentElement.scrollHeight]"); size != "1280,720" {
		b.t.Errorf("%s: the page has %s pixels, expected 1280,720", name, size)
	}
	dir := os.Getenv("SOFTRDMA_SCREENSHOTS")
	if dir == "" {
		dir = b.t.TempDir()
	}
	var grounds []uint32
	for _, scheme := range []string{"dark", "light"} {
		b.call("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}}}, nil)
		var shot struct{ Data string }
		b.call("Page.captureScreenshot", nil, &shot)
		file, err := base64.StdEncoding.DecodeString(shot.Data)
		if err != nil {
			b.t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name+"-"+scheme+".png"), file, 0o644); err != nil {
			b.t.Fatal(err)
		}
		picture, err := png.Decode(bytes.NewReader(file))
		if err != nil {
			b.t.Fatal(err)
		}
		red, _, _, _ := picture.At(5, 300).RGBA()
		grounds = append(grounds, red>>8)
	}
	if grounds[0] > 64 || grounds[1] < 128 { // a dialog darkens it
		b.t.Errorf("%s: the ground is %d in dark and %d in light", name, grounds[0], grounds[1])
	}
}

// clean fails the test if a script has failed, or the page wanted what its policy forbids.
func (b *tab) clean() {
	b.t.Helper()
	if alarm := b.shown("#alarm"); alarm != "" || len(b.errors) > 0 {
		b.t.Errorf("alarm %q, errors %q", alarm, b.errors)
	}
}
