//go:build interop && linux

package main

import (
	"bytes"
	"encoding/base64"
	"image/png"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"softrdma/internal/testenv/chromium"
)

// A tab is a page of the console in Chromium.
type tab struct {
	*chromium.Tab
	t *testing.T
}

// text evaluates an expression whose value is a text.
func (b *tab) text(expression string) (value string) {
	b.t.Helper()
	b.Evaluate("String("+expression+")", &value)
	return value
}

// shown returns the text of what a selector finds.
func (b *tab) shown(selector string) string {
	b.t.Helper()
	return b.text("[...document.querySelectorAll(" + strconv.Quote(selector) + ")].map((e) => e.textContent).join('\\n')")
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
		b.Call("Input.dispatchKeyEvent", down, nil)
		b.Call("Input.dispatchKeyEvent", map[string]any{"type": "keyUp", "key": k}, nil)
	}
}

// files chooses files in an input.
func (b *tab) files(selector string, paths ...string) {
	b.t.Helper()
	var document struct{ Root struct{ NodeID int } }
	b.Call("DOM.getDocument", nil, &document)
	var node struct{ NodeID int }
	b.Call("DOM.querySelector", map[string]any{"nodeId": document.Root.NodeID, "selector": selector}, &node)
	b.Call("DOM.setFileInputFiles", map[string]any{"nodeId": node.NodeID, "files": paths}, nil)
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
		b.Scheme(scheme)
		var shot struct{ Data string }
		b.Call("Page.captureScreenshot", nil, &shot)
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

// clean fails the test if the page shows an error.
func (b *tab) clean() {
	b.t.Helper()
	if alarm := b.shown("#alarm"); alarm != "" {
		b.t.Errorf("alarm %q", alarm)
	}
}
