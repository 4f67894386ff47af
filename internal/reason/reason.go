// Package reason defines a name for every case in which softrdma drops a packet,
// sends a NAK, completes a work request with an error or refuses a call. Go
// errors, completions, traces and counters all use this name, and
// `softrdma explain NAME` explains it.
//
// The package owns the names and one sentence for each. It never decides, counts
// or prints: the code that refuses something does.
package reason

import (
	"fmt"
	"regexp"
	"strings"
)

// A Reason is a named refusal. Completions carry its number in their vendor_err
// field. A name never changes. A number belongs to a subject's room: it stays as
// long as reasons are added at the end of their room.
type Reason uint32

// None is no reason.
const None Reason = 0

// A Detail is a reason with the value that was expected and the one that was
// found. The reason's sentence says what the two numbers mean.
type Detail struct {
	Reason          Reason
	Expected, Found uint64
}

// String returns the sentence with both numbers, or their names if they have any.
func (d Detail) String() string {
	if !d.Reason.Known() {
		return d.Reason.String()
	}
	if d.Reason == Flushed && Reason(d.Expected) == None {
		return flushedInOrder
	}
	n := rooms[d.Reason/roomSize].kinds[d.Reason]
	return fmt.Sprintf(d.Reason.row().format, n[0].argument(d.Expected), n[1].argument(d.Found))
}

// String returns the name.
func (r Reason) String() string {
	switch {
	case r == None:
		return "NONE"
	case r.Known():
		return r.row().name
	}
	return fmt.Sprintf("reason %d", uint32(r))
}

var verb = regexp.MustCompile(`%[#0-9]*[a-z]`)

// Sentence returns the reason's sentence with "…" for both numbers. The words
// around them say what they are.
func (r Reason) Sentence() string {
	if !r.Known() {
		return r.String()
	}
	return strings.ReplaceAll(verb.ReplaceAllString(r.row().format, "…"), "...…", "…")
}
