package verbs

import (
	"fmt"
	"os"
	"runtime"
	"strings"

	"softrdma/internal/reason"
	"softrdma/internal/sanitize"
)

// checkSanitize returns an error if there is no such rule.
func (c *Config) checkSanitize() error {
	if _, err := sanitize.ParseRules(c.Sanitize); err != nil {
		return reason.BadArgument(0, 0, "Sanitize: %v", err)
	}
	return nil
}

// sanitizer returns what checks the use of a new device, nil if nothing does. checkSanitize has
// accepted the rules.
func (s *Stack) sanitizer(cfg *Config) *sanitize.Sanitizer {
	if cfg.Sanitize == "" {
		return sanitize.New(s.reg().Sanitize)
	}
	rules, _ := sanitize.ParseRules(cfg.Sanitize)
	report := cfg.SanitizeReport
	if report == nil {
		report = func(_, text string) { fmt.Fprint(os.Stderr, text) }
	}
	return sanitize.New(&sanitize.Config{
		Rules: rules, Where: callers, Frames: frames, Report: func(f *sanitize.Finding) { report(f.Rule, f.String()) },
	})
}

// positions is how many calls of a position are kept. Some of them are softrdma's own.
const positions = 32

// callers returns the stack of the program's call.
func callers() []uintptr {
	pcs := make([]uintptr, positions)
	return pcs[:runtime.Callers(2, pcs)]
}

// frames resolves a stack, without the calls inside of softrdma, and without those of goroutines that
// the program has not started.
func frames(pcs []uintptr) (list []sanitize.Frame) {
	all := runtime.CallersFrames(pcs)
	for {
		f, more := all.Next()
		if !ownFunction(f.Function) {
			list = append(list, sanitize.Frame{Function: f.Function, File: f.File, Line: f.Line})
		}
		if !more {
			return list
		}
	}
}

func ownFunction(name string) bool {
	for _, p := range []string{"softrdma/internal/", "softrdma/verbs.", "softrdma/rdmacm.", "runtime."} {
		if strings.HasPrefix(name, p) {
			return true
		}
	}
	return false
}
