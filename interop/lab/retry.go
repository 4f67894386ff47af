//go:build interop && linux

package lab

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
)

// Retry runs a meeting of two programs until it succeeds, at most attempts times, and returns the last error. It tries
// again only after an error that is a known fault of a peer or of the lab. Each attempt that fails is noted: Go shows
// the log of tests that fail, and SOFTRDMA_LAB_NOTES names a file to which the notes of all others are appended, as
// make interop wants them.
func Retry(t testing.TB, attempts int, known func(error) bool, meet func(attempt int) error) error {
	t.Helper()
	for attempt := 1; ; attempt++ {
		err := meet(attempt)
		if err == nil || attempt == attempts || !known(err) {
			return err
		}
		note(t, fmt.Sprintf("attempt %d of %d: %v", attempt, attempts, err))
	}
}

// AnyError reports every error as a known fault. It is for meetings of Linux with itself.
func AnyError(error) bool { return true }

func note(t testing.TB, line string) {
	t.Helper()
	t.Log(line)
	path := os.Getenv("SOFTRDMA_LAB_NOTES")
	if path == "" {
		return
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err == nil {
		first, _, _ := strings.Cut(line, "\n")
		_, err = fmt.Fprintf(f, "NOTE %s: %s\n", t.Name(), first)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		t.Error(err)
	}
}
