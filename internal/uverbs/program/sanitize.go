//go:build linux

package program

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"softrdma/internal/registry"
	"softrdma/internal/sanitize"
)

// Sanitize checks how the program uses the devices that are opened from now on. Suppressions and findings
// are paths of files, or empty: findings are appended to theirs as lines of JSON, and printed. Where returns
// the return addresses of the program's present call.
func (e *Engine) Sanitize(rules, suppressions, findings string, where func() []uintptr) (err error) {
	c := &sanitize.Config{Where: where, Frames: new(symbols).frames}
	if c.Rules, err = sanitize.ParseRules(rules); err != nil {
		return fmt.Errorf("sanitizer: %w", err)
	}
	if suppressions != "" {
		text, err := os.ReadFile(suppressions)
		if err != nil {
			return fmt.Errorf("sanitizer: %w", err)
		}
		if c.Suppressed, err = sanitize.ParseSuppressions(string(text)); err != nil {
			return fmt.Errorf("sanitizer: %s: %w", suppressions, err)
		}
	}
	c.Report = func(f *sanitize.Finding) {
		if ofLibrary(f) {
			return
		}
		fmt.Fprint(os.Stderr, f)
		if findings == "" {
			return
		}
		if err := appendFinding(findings, f); err != nil {
			fmt.Fprintln(os.Stderr, "softrdma: sanitizer:", err)
		}
	}
	registry.Process.Sanitize = c
	e.deferrals = nil // each request is looked at when it is posted
	return nil
}

// ofLibrary reports whether librdmacm keeps an object for itself until the process ends: the protection
// domain of each device.
func ofLibrary(f *sanitize.Finding) bool {
	return f.Rule == sanitize.ObjectLeaked.String() && strings.HasPrefix(f.Object, "protection domain") && len(f.Before) > 0 &&
		len(f.Before[0].Where) > 1 && strings.Contains(f.Before[0].Where[1].Module, "/librdmacm.so")
}

// appendFinding appends a finding to a file that other programs may also append to.
func appendFinding(path string, f *sanitize.Finding) error {
	line, err := json.Marshal(f)
	if err != nil {
		return err
	}
	to, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if _, err := to.Write(append(line, '\n')); err != nil {
		_ = to.Close()
		return err
	}
	return to.Close()
}
