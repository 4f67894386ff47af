package reason

import (
	"regexp"
	"strings"
)

var verb = regexp.MustCompile(`%[#0-9]*[a-z]`)

// Sentence gives the reason's sentence with "…" in place of both numbers; what
// they are is told by the words around them.
func (r Reason) Sentence() string {
	if r >= Count {
		return r.String()
	}
	return strings.ReplaceAll(verb.ReplaceAllString(rows[r].format, "…"), "...…", "…")
}
