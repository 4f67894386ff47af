package cli

import "github.com/spf13/cobra"

// FlagText returns the value of a flag, or "" if the command does not have it.
func FlagText(cmd *cobra.Command, name string) string {
	if f := cmd.Flag(name); f != nil {
		return f.Value.String()
	}
	return ""
}

// FlagGiven reports whether the command has a flag and the user gave it.
func FlagGiven(cmd *cobra.Command, name string) bool {
	f := cmd.Flag(name)
	return f != nil && f.Changed
}

// NotBoth refuses two flags that exclude each other.
func NotBoth(cmd *cobra.Command, a, b string) error {
	if cmd.Flag(a).Changed && cmd.Flag(b).Changed {
		return UsageErrorf("--%s and --%s: expected one of them", a, b)
	}
	return nil
}
