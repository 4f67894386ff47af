// Package scenarios has files of rules for common faults. Programs use them by name, and people copy and
// change them.
package scenarios

import (
	"embed"
	"strings"

	"softrdma/internal/namedfiles"
)

//go:embed *.yaml
var files embed.FS

var dir = namedfiles.New(files, ".yaml")

// Names returns the names of the scenarios in order.
func Names() []string { return dir.Names() }

// Text returns the file of a scenario, and false if there is none of that name.
func Text(name string) ([]byte, bool) { return dir.Text(name) }

// Summary returns the first line of a scenario's file as a sentence, "" if there is no such scenario.
func Summary(name string) string {
	b, _ := Text(name)
	first, _, _ := strings.Cut(string(b), "\n")
	return strings.TrimPrefix(first, "# ")
}
