package exec

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"softrdma/cmd/softrdma/internal/cli"
)

// An engine is where the device of a program is.
type engine string

const (
	engineAuto    engine = "auto"
	engineProgram engine = "program" // in the program's own process
	engineDaemon  engine = "daemon"  // in the process of this command or of a daemon
)

var engines = []string{string(engineAuto), string(engineProgram), string(engineDaemon)}

// String implements pflag.Value.
func (e *engine) String() string { return string(*e) }

// Type implements pflag.Value.
func (e *engine) Type() string { return "ENGINE" }

// Set implements pflag.Value.
func (e *engine) Set(s string) error {
	switch engine(s) {
	case engineAuto, engineProgram, engineDaemon:
		*e = engine(s)
		return nil
	}
	return fmt.Errorf("expected %s, %s or %s, found %q", engineAuto, engineProgram, engineDaemon, s)
}

// whyNotInProgram returns why the flags rule out devices in the program's own process, ""
// if they do not.
func whyNotInProgram(cmd *cobra.Command) string {
	if noFile(cli.FlagText(cmd, cli.PcapFlag)) {
		return "--" + cli.PcapFlag + ": programs write to regular files only"
	}
	return ""
}

// noFile reports whether a path names something else than a regular file.
func noFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && !info.Mode().IsRegular()
}
