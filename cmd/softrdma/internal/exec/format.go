package exec

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
)

// A format is how env prints variables.
type format string

var formats = []string{"sh", "fish", "github", "json"}

// String implements pflag.Value.
func (f *format) String() string { return string(*f) }

// Type implements pflag.Value.
func (f *format) Type() string { return "FORMAT" }

// Set implements pflag.Value.
func (f *format) Set(s string) error {
	if !slices.Contains(formats, s) {
		return fmt.Errorf("expected one of %s, found %q", strings.Join(formats, ", "), s)
	}
	*f = format(s)
	return nil
}

// shQuote and fishQuote escape what has a meaning between single quotes.
var (
	shQuote   = strings.NewReplacer(`'`, `'\''`)
	fishQuote = strings.NewReplacer(`'`, `\'`, `\`, `\\`)
)

// print prints variables that are given as NAME=VALUE.
func (f format) print(w io.Writer, variables []string) error {
	values := make(map[string]string)
	var b strings.Builder
	for _, v := range variables {
		name, value, _ := strings.Cut(v, "=")
		values[name] = value
		switch f {
		case "fish":
			fmt.Fprintf(&b, "set -gx %s '%s';\n", name, fishQuote.Replace(value))
		case "github":
			fmt.Fprintln(&b, v)
		default:
			fmt.Fprintf(&b, "export %s='%s'\n", name, shQuote.Replace(value))
		}
	}
	if f == "json" {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(values)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
