package auth

import (
	"fmt"
	"strings"
)

// A Table has the secrets of hosts, by their qualified names.
type Table map[string]Secrets

// AnyHost is the name of the hosts that a table does not name.
const AnyHost = "*"

// For returns the secrets of a host.
func (t Table) For(host string) Secrets {
	if s, ok := t[host]; ok {
		return s
	}
	return t[AnyHost]
}

// ParseTable parses a text with a line for each host: its qualified name or "*", its secret, and the
// controller's secret if the controller is authenticated, too. Empty lines and those that begin with
// "#" are left out. Errors name the line and contain no secret.
func ParseTable(text string) (Table, error) {
	t := make(Table)
	number := 0
	for line := range strings.Lines(text) {
		number++
		fields := strings.Fields(line)
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		if len(fields) < 2 || len(fields) > 3 {
			return nil, fmt.Errorf("line %d: expected NQN SECRET [CONTROLLER-SECRET], found %d words", number, len(fields))
		}
		if _, twice := t[fields[0]]; twice {
			return nil, fmt.Errorf("line %d: expected each name once, found a name again", number)
		}
		var s [2]Secret
		for i, text := range fields[1:] {
			var err error
			if s[i], err = ParseSecret(text); err != nil {
				return nil, fmt.Errorf("line %d: %w", number, err)
			}
		}
		t[fields[0]] = Secrets{s[0], s[1]}
	}
	if len(t) == 0 {
		return nil, fmt.Errorf("line %d: expected NQN SECRET [CONTROLLER-SECRET], found no line", max(number, 1))
	}
	return t, nil
}
