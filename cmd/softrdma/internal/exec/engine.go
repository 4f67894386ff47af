package exec

import (
	"fmt"
	"os"
	"slices"

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
// if they do not. Names are those of the devices to open. With --engine auto each device is where
// it can be; otherwise all must be in the program.
func (s *options) whyNotInProgram(cmd *cobra.Command, names []string) string {
	sharable := func(name string) bool { return cli.Sharable(cmd, name) }
	unsharable := func(name string) bool { return !sharable(name) }
	all := slices.IndexFunc(names, sharable) < 0
	switch {
	case all || s.engine == engineProgram && slices.ContainsFunc(names, unsharable):
		return "iWARP with TLS, whose keys stay with softrdma, cannot be in the program"
	case noFile(cli.FlagText(cmd, cli.PcapFlag)):
		return "--" + cli.PcapFlag + ": programs write to regular files only"
	}
	return ""
}

// noFile reports whether a path names something else than a regular file.
func noFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && !info.Mode().IsRegular()
}
