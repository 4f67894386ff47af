// Package scenarios has scenarios of simulations. Programs use them by name, and people copy and
// change them.
package scenarios

import (
	"embed"
	"slices"
	"strings"
)

//go:embed *.yaml
var files embed.FS

const extension = ".yaml"

// Names returns the names of the scenarios in order.
func Names() (names []string) {
	list, _ := files.ReadDir(".") // an embedded directory can be read
	for _, f := range list {
		names = append(names, strings.TrimSuffix(f.Name(), extension))
	}
	slices.Sort(names)
	return names
}

// Text returns the file of a scenario, and false if there is none of that name.
func Text(name string) ([]byte, bool) {
	b, err := files.ReadFile(name + extension)
	return b, err == nil
}
