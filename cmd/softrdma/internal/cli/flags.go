package cli

import "github.com/spf13/cobra"

// FlagText is the value of a flag, "" where the command has none of that name.
func FlagText(cmd *cobra.Command, name string) string {
	if f := cmd.Flag(name); f != nil {
		return f.Value.String()
	}
	return ""
}

// FlagGiven reports whether a flag was given, which a command may not have.
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
