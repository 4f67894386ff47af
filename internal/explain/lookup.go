package explain

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"softrdma/internal/wire/ib"
)

// A NotFoundError reports that no entry matches the query.
type NotFoundError struct {
	Query   string
	Nearest []string // the most similar names
}

// Error returns the query and the most similar names.
func (e *NotFoundError) Error() string {
	if len(e.Nearest) == 0 {
		return fmt.Sprintf("no entry matches %q", e.Query)
	}
	return fmt.Sprintf("no entry matches %q; the most similar names are %s", e.Query, strings.Join(e.Nearest, ", "))
}

// Lookup returns the entries that match a query. A query is a number ("28",
// "0x62"), which may have several meanings; a name with or without its prefix
// ("IBV_WC_RETRY_EXC_ERR", "retry_exc_err", "KEY_BOUNDS"); words of a name ("retry
// exceeded"); words of a sentence ("no receive posted"); or a line that a program or the kernel
// printed ("Failed status 12: wr_id 0 syndrom 0x81").
func Lookup(query string) ([]Entry, error) {
	words := split(query)
	all := all()
	if len(words) == 0 {
		return nil, &NotFoundError{Query: query}
	}
	more := numbers()
	if found, isNumber := byNumber(slices.Concat(all, more), strings.TrimSpace(query)); isNumber {
		if len(found) == 0 {
			return nil, &NotFoundError{Query: query}
		}
		return found, nil
	}
	if found := inLine(query, all, more, false); found != nil {
		return found, nil
	}
	if found := callsIn(query, true); found != nil { // a call alone
		return found, nil
	}
	name := strings.Join(words, "_")
	if !strings.EqualFold(strings.TrimSpace(query), name) {
		// The query is several words rather than a name: several names may have them.
		if found := byWords(all, split(short(name))); found != nil {
			return found, nil
		}
	}
	if found := keep(all, func(e *Entry) bool { return e.Name == name }); found != nil {
		return found, nil
	}
	if found := keep(all, func(e *Entry) bool { return e.short() == short(name) }); found != nil {
		return found, nil
	}
	if found := byWords(all, split(short(name))); found != nil {
		return found, nil
	}
	if found := keep(more, func(e *Entry) bool { return strings.Join(split(e.Name), "_") == name }); found != nil {
		return found, nil
	}
	if found := byText(all, words); found != nil {
		return found, nil
	}
	if found := byPhrase(all, words); found != nil {
		return found, nil
	}
	if found := byWords(more, words); found != nil {
		return found, nil
	}
	if found := byText(more, words); found != nil {
		return found, nil
	}
	return nil, &NotFoundError{Query: query, Nearest: nearest(all, short(name))}
}

// split returns the words of s in capitals.
func split(s string) []string {
	return strings.FieldsFunc(strings.ToUpper(s), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
}

func short(name string) string {
	for _, p := range [...]string{"IBV_WC_", "IB_WC_", eventPrefix, "IB_EVENT_", "WC_", "EVENT_"} {
		if s, ok := strings.CutPrefix(name, p); ok {
			return s
		}
	}
	return name
}

func (e *Entry) short() string { return short(e.Name) }

func keep(all []Entry, f func(*Entry) bool) (found []Entry) {
	for i := range all {
		if f(&all[i]) {
			found = append(found, all[i])
		}
	}
	return found
}

// byNumber returns all meanings of a number. Those that are usually printed in
// the query's base, decimal or hexadecimal, come first.
func byNumber(all []Entry, s string) (found []Entry, isNumber bool) {
	hex := strings.HasPrefix(strings.ToLower(s), "0x")
	n, err := strconv.ParseInt(s, 0, 64)
	if err != nil {
		if n, err = strconv.ParseInt(s, 10, 64); err != nil {
			return nil, false
		}
	}
	if n < 0 {
		// The connection manager's events carry negative error numbers.
		return keep(all, func(e *Entry) bool { return e.Kind == SystemError && int64(e.Number) == -n }), true
	}
	found = keep(all, func(e *Entry) bool {
		if e.Kind == Syndrome { // one entry stands for many numbers
			return n <= 0xff && e.Name == syndrome(ib.Syndrome(n))
		}
		return int64(e.Number) == n
	})
	rank := func(e Entry) int {
		_, h := hexadecimal[e.Kind]
		switch {
		case e.Kind == Reason:
			return 2 // few programs print vendor_err
		case h == hex:
			return 0
		}
		return 1
	}
	slices.SortStableFunc(found, func(a, b Entry) int { return rank(a) - rank(b) })
	return found, true
}

// byWords returns the entries whose names contain all words of the query. Of
// these it returns only the names with the fewest other words. A word matches
// its abbreviation: "exceeded" matches EXC.
func byWords(all []Entry, words []string) (found []Entry) {
	best := -1
	for _, e := range all {
		rest := split(e.short())
		matched := true
		for _, w := range words {
			i := slices.IndexFunc(rest, func(n string) bool { return alike(n, w) })
			if i < 0 {
				matched = false
				break
			}
			rest = slices.Delete(rest, i, i+1)
		}
		if !matched {
			continue
		}
		left := 0
		for _, n := range rest {
			if n != "ERR" && n != "ERROR" {
				left++
			}
		}
		switch {
		case best < 0 || left < best:
			best, found = left, []Entry{e}
		case left == best:
			found = append(found, e)
		}
	}
	return found
}

// alike reports whether two words are equal or one abbreviates the other.
func alike(a, b string) bool {
	return a == b || min(len(a), len(b)) >= 3 && (strings.HasPrefix(a, b) || strings.HasPrefix(b, a))
}

// byText returns the entries whose meanings contain all words of the query.
func byText(all []Entry, words []string) []Entry {
	return keep(all, func(e *Entry) bool {
		text := split(e.Meaning)
		for _, w := range words {
			if !slices.Contains(text, w) {
				return false
			}
		}
		return true
	})
}

// byPhrase returns the entries whose causes quote the query: what other programs print.
func byPhrase(all []Entry, words []string) []Entry {
	if len(words) < 3 {
		return nil
	}
	phrase := " " + strings.Join(words, " ") + " "
	return keep(all, func(e *Entry) bool { return strings.Contains(" "+strings.Join(split(e.Cause), " ")+" ", phrase) })
}

const suggestions = 4

// nearest returns the names with the smallest edit distance to name.
func nearest(all []Entry, name string) (names []string) {
	type candidate struct {
		name     string
		distance int
	}
	var near []candidate
	for _, e := range all {
		if d := distance(name, e.short()); d <= max(3, len(name)/2) {
			near = append(near, candidate{e.Name, d})
		}
	}
	slices.SortStableFunc(near, func(a, b candidate) int { return a.distance - b.distance })
	for _, c := range near[:min(suggestions, len(near))] {
		names = append(names, c.name)
	}
	return names
}

// distance returns the Levenshtein distance of two words. For long queries it
// returns their length, to bound the work.
func distance(a, b string) int {
	if len(a) > 64 {
		return len(a)
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			d := diagonal
			if a[i] != b[j] {
				d++
			}
			diagonal = row[j+1]
			row[j+1] = min(d, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}
