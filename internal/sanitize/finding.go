package sanitize

import (
	"fmt"
	"path"
	"strings"
)

// A Frame is a position in a program.
type Frame struct {
	Function string `json:"function,omitempty"`
	File     string `json:"file,omitempty"`
	Line     int    `json:"line,omitempty"`
	Module   string `json:"module,omitempty"` // the program or library, of C
	Offset   uint64 `json:"offset,omitempty"` // in the module
}

// String returns the frame as debuggers print it.
func (f Frame) String() string {
	name := f.Function
	if name == "" {
		name = "?"
	}
	switch {
	case f.File != "":
		return fmt.Sprintf("%s %s:%d", name, f.File, f.Line)
	case f.Module != "":
		return fmt.Sprintf("%s (%s+%#x)", name, f.Module, f.Offset)
	}
	return name
}

// A Note says where something happened before a mistake that belongs to it.
type Note struct {
	What  string  `json:"what"`
	Where []Frame `json:"where,omitempty"`
}

// A Finding is a mistake of the program.
type Finding struct {
	rule   Rule
	Rule   string  `json:"rule"`
	Object string  `json:"object"`
	Found  string  `json:"found"`
	Where  []Frame `json:"where,omitempty"` // innermost first; empty if no call of the program found it
	Before []Note  `json:"before,omitempty"`
	Text   Text    `json:"text"`
}

// String returns the finding as a block of lines.
func (f *Finding) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "== softrdma: %s: %s: %s\n", f.Rule, f.Object, f.Found)
	frames := func(list []Frame) {
		for i, x := range list {
			fmt.Fprintf(&b, "     #%d %v\n", i, x)
		}
	}
	frames(f.Where)
	for _, n := range f.Before {
		fmt.Fprintf(&b, "   %s\n", n.What)
		frames(n.Where)
	}
	fmt.Fprintf(&b, "   %s\n   rule: %s (%s)\n   do: %s\n", f.Text.Happens, f.Text.Says, f.Text.Clause, f.Text.Do)
	return b.String()
}

// Suppressions are findings that are not reported.
type Suppressions []suppression

type suppression struct {
	rules   Rules
	pattern string
}

// ParseSuppressions parses lines of the form RULE:PATTERN. The pattern is that of path.Match, of a
// function, a source file, a module or an object. "*" stands for any rule. Empty lines and those that
// begin with # are skipped.
func ParseSuppressions(text string) (list Suppressions, err error) {
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		rule, pattern, ok := strings.Cut(line, ":")
		if _, err := path.Match(pattern, ""); !ok || pattern == "" || err != nil {
			return nil, fmt.Errorf("suppressions, line %d: expected RULE:PATTERN, found %q", n, line)
		}
		if rule == "*" {
			rule = ruleAll
		}
		set, err := ParseRules(rule)
		if err != nil {
			return nil, fmt.Errorf("suppressions, line %d: %w", n, err)
		}
		list = append(list, suppression{set, pattern})
	}
	return list, nil
}

// Match reports whether a finding is suppressed.
func (l Suppressions) Match(f *Finding) bool {
	for _, s := range l {
		if s.rules.Has(f.rule) && f.matches(s.pattern) {
			return true
		}
	}
	return false
}

func (f *Finding) matches(pattern string) bool {
	match := func(name string) bool {
		ok, _ := path.Match(pattern, name)
		return ok || name != "" && path.Base(name) == pattern
	}
	lists := [][]Frame{f.Where}
	for _, n := range f.Before {
		lists = append(lists, n.Where)
	}
	for _, list := range lists {
		for _, x := range list {
			if match(x.Function) || match(x.File) || match(path.Base(x.File)) || match(x.Module) || match(path.Base(x.Module)) {
				return true
			}
		}
	}
	return match(f.Object)
}
