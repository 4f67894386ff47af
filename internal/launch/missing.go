package launch

import (
	"fmt"
	"strings"
	"time"
)

// DefaultWait is how long an exchange waits for all ranks.
const DefaultWait = 5 * time.Minute

// A MissingError means that some ranks have not given a value in time, or cannot give one
// because they have ended.
type MissingError struct {
	Ranks  []int         `json:"ranks"`
	Size   int           `json:"size"`   // number of all ranks
	Within time.Duration `json:"within"` // 0 if the ranks have ended
}

// mostNamed is the maximum number of ranks in the text of a MissingError.
const mostNamed = 16

// newMissing returns the error about the ranks whose values are nil.
func newMissing(values [][]byte, within time.Duration) *MissingError {
	e := &MissingError{Size: len(values), Within: within}
	for r, v := range values {
		if v == nil {
			e.Ranks = append(e.Ranks, r)
		}
	}
	return e
}

func (e *MissingError) Error() string {
	ranks, more := e.Ranks, ""
	if n := len(ranks) - mostNamed; n > 0 {
		ranks, more = ranks[:mostNamed], fmt.Sprintf(" and %d more", n)
	}
	names := strings.ReplaceAll(strings.Trim(fmt.Sprint(ranks), "[]"), " ", ", ")
	if len(e.Ranks) > 1 {
		names = "s " + names
	} else {
		names = " " + names
	}
	names += more
	if e.Within == 0 {
		return fmt.Sprintf("expected the addresses of %d ranks, found that rank%s ended without giving one", e.Size, names)
	}
	return fmt.Sprintf("expected the addresses of %d ranks within %v, found none of rank%s", e.Size, e.Within, names)
}
