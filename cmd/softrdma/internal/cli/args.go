package cli

import (
	"fmt"

	"github.com/spf13/cobra"
)

// AnyNumber is an unlimited number of arguments.
const AnyNumber = 1 << 30

// Args accepts low to high arguments. expected names them in the error about another number.
func Args(low, high int, expected string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		found := fmt.Sprintf("%d arguments", len(args))
		switch n := len(args); {
		case low <= n && n <= high:
			return nil
		case n == 0:
			found = "none"
		case n == 1:
			found = fmt.Sprintf("%q alone", args[0])
		}
		return UsageErrorf("expected %s; found %s", expected, found)
	}
}

// NoArgs refuses arguments.
func NoArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return UsageErrorf("%s: expected no argument, found %q", cmd.CommandPath(), args[0])
}
