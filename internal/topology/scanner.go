package topology

import (
	"fmt"
	"strconv"
	"strings"
)

// A scanner reads words from the front of a line.
type scanner struct {
	rest string
}

func (s *scanner) skipSpace() { s.rest = strings.TrimLeft(s.rest, " \t") }

// end reports whether nothing but space is left.
func (s *scanner) end() bool {
	s.skipSpace()
	return s.rest == ""
}

// take removes a text from the front, and reports whether it was there.
func (s *scanner) take(text string) bool {
	s.skipSpace()
	rest, ok := strings.CutPrefix(s.rest, text)
	if ok {
		s.rest = rest
		s.skipSpace()
	}
	return ok
}

// word removes what is in front of the next space.
func (s *scanner) word() (text string) {
	s.skipSpace()
	n := strings.IndexAny(s.rest, " \t")
	if n < 0 {
		n = len(s.rest)
	}
	text, s.rest = s.rest[:n], s.rest[n:]
	s.skipSpace()
	return text
}

// number removes a decimal number from the front.
func (s *scanner) number() (uint64, bool) {
	s.skipSpace()
	n := strings.IndexFunc(s.rest, func(r rune) bool { return r < '0' || r > '9' })
	if n < 0 {
		n = len(s.rest)
	}
	v, err := strconv.ParseUint(s.rest[:n], 10, 32)
	if err != nil {
		return 0, false
	}
	s.rest = s.rest[n:]
	s.skipSpace()
	return v, true
}

// quoted removes a text in quotation marks from the front.
func (s *scanner) quoted() (string, bool) {
	s.skipSpace()
	if !strings.HasPrefix(s.rest, `"`) {
		return "", false
	}
	text, rest, ok := strings.Cut(s.rest[1:], `"`)
	if !ok {
		return "", false
	}
	s.rest = rest
	s.skipSpace()
	return text, true
}

// bracketed removes a text between two marks from the front.
func (s *scanner) bracketed(from, to string) (string, bool) {
	s.skipSpace()
	if !strings.HasPrefix(s.rest, from) {
		return "", false
	}
	text, rest, ok := strings.Cut(s.rest[len(from):], to)
	if !ok {
		return "", false
	}
	s.rest = rest
	s.skipSpace()
	return text, true
}

// found describes what stands at the front, for an error.
func (s *scanner) found(otherwise string) string {
	if s.rest != "" {
		return fmt.Sprintf("%q", s.rest)
	}
	if otherwise != "" {
		return fmt.Sprintf("%q", otherwise)
	}
	return "the end of the line"
}
