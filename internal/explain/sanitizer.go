package explain

import "softrdma/internal/sanitize"

// mistakes returns the entries of the sanitizer's rules.
func mistakes() (list []Entry) {
	for r := range sanitize.All() {
		t := r.Text()
		list = append(list, Entry{Kind: Mistake, Name: r.String(), Number: -1, Meaning: t.Happens, Cause: t.Says, Look: "The position in the program that softrdma exec --sanitize prints.", Remedy: t.Do, Clause: t.Clause})
	}
	return list
}
