// Package ondemand lets programs find an RDMA device without a process that runs for them: it has the
// environment of such programs, and the place of the server that the first of them starts.
//
// The preloaded library (preload/src/start.c) knows the same variables and places. The server is the
// command softrdma daemon --on-demand.
package ondemand

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// The environment variables by which the preloaded library finds its server and the engine.
const (
	preloadVariable  = "LD_PRELOAD"
	socketVariable   = "SOFTRDMA_SOCKET"
	treeVariable     = "SOFTRDMA_TREE"
	startVariable    = "SOFTRDMA_START"
	engineVariable   = "SOFTRDMA_ENGINE"
	requiredVariable = "SOFTRDMA_ENGINE_REQUIRED"
	verboseVariable  = "SOFTRDMA_ENGINE_VERBOSE"

	sanitizeVariable     = "SOFTRDMA_SANITIZE"
	suppressionsVariable = "SOFTRDMA_SANITIZE_SUPPRESSIONS"
	findingsVariable     = "SOFTRDMA_SANITIZE_JSON"
)

// RecordsVariable names the directory into which devices write their flight recorders when queue pairs
// fail.
const RecordsVariable = "SOFTRDMA_RECORDS"

// An Environment is what a program needs to find its devices. Either Socket and Tree or Start are set.
type Environment struct {
	Library string // to preload

	Socket, Tree string   // of a server
	Start        []string // the command that starts or joins a server; no argument has a space

	// Engine is the library with which a program can have the devices in its own process, "" for none.
	// If it is required, programs find no device where it cannot be used, instead of the server's.
	// Verbose prints why not, and each call that the engine refuses.
	Engine            string
	Required, Verbose bool

	Records string // directory for flight recorders, "" for none
	// Sanitize is the list of rules by which the engine checks programs, "" for none. Suppressions and
	// Findings are paths of files, or "".
	Sanitize, Suppressions, Findings string
}

// Variables returns the environment variables, as NAME=VALUE. Those of another Environment that this
// process has are emptied. Libraries that are preloaded already are kept, after this one.
func (e *Environment) Variables() []string { return e.Over(os.Getenv) }

// Over is Variables for a process whose environment has other values, "" for those that it lacks.
func (e *Environment) Over(old func(name string) string) (list []string) {
	flag := map[bool]string{true: "1"}
	for _, v := range []struct{ name, value string }{
		{preloadVariable, e.preload(old(preloadVariable))},
		{socketVariable, e.Socket},
		{treeVariable, e.Tree},
		{startVariable, strings.Join(e.Start, " ")},
		{engineVariable, e.Engine},
		{requiredVariable, flag[e.Required && e.Engine != ""]},
		{verboseVariable, flag[e.Verbose && e.Engine != ""]},
		{RecordsVariable, e.Records},
		{sanitizeVariable, e.Sanitize},
		{suppressionsVariable, e.Suppressions},
		{findingsVariable, e.Findings},
	} {
		if v.value != "" || old(v.name) != "" {
			list = append(list, v.name+"="+v.value)
		}
	}
	return list
}

// preload returns a list of libraries to preload that begins with this one.
func (e *Environment) preload(old string) string {
	libraries := strings.FieldsFunc(old, func(r rune) bool { return r == ':' || r == ' ' })
	return strings.Join(append([]string{e.Library}, slices.DeleteFunc(libraries, own)...), ":")
}

// own reports whether a preloaded library is softrdma's, of another environment. It lies in a directory
// of that name: softrdma, or softrdma-BOOT-NUMBER.
func own(library string) bool {
	dir, name := filepath.Split(library)
	return strings.HasPrefix(filepath.Base(dir), "softrdma") && strings.HasPrefix(name, "preload") && strings.HasSuffix(name, ".so")
}

// Words are the first arguments of the softrdma command that starts a server. Flags of softrdma daemon may
// follow.
var Words = []string{"daemon", "--on-demand"}

// Command returns a command for Environment.Start.
func Command(program string, args ...string) ([]string, error) {
	command := append([]string{program}, args...)
	for _, word := range command {
		if word == "" || strings.ContainsAny(word, " \n") {
			return nil, fmt.Errorf("the command that starts the server: expected words without spaces, found %q", word)
		}
	}
	return command, nil
}
