// Package scenarios has scenarios of simulations. Programs use them by name, and people copy and
// change them.
package scenarios

import (
	"embed"

	"softrdma/internal/namedfiles"
)

//go:embed *.yaml
var files embed.FS

var dir = namedfiles.New(files, ".yaml")

// Names returns the names of the scenarios in order.
func Names() []string { return dir.Names() }

// Text returns the file of a scenario, and false if there is none of that name.
func Text(name string) ([]byte, bool) { return dir.Text(name) }
