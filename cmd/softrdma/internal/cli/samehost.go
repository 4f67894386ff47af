package cli

import (
	"github.com/spf13/cobra"

	"softrdma/verbs"
)

// Flags that say how peers on this host are reached.
const (
	SameHostFlag      = "same-host"
	sameHostAllowFlag = "same-host-allow"
)

// addSameHostFlags adds the flags to a command that opens a device.
func addSameHostFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.String(SameHostFlag, "", "reach other processes on this host through shared memory: `MODE` auto (default), off (network only) or require")
	f.StringSlice(sameHostAllowFlag, nil, "other `USERS` whose processes may be reached this way: names or numbers, or all")
}

// ApplySameHostFlags applies the flags to all devices that this process opens, also to
// those that the connection manager chooses. OpenDevice and OpenLocal call it.
func ApplySameHostFlags(cmd *cobra.Command) error {
	if cmd.Flag(SameHostFlag) == nil {
		return nil
	}
	users, err := cmd.Flags().GetStringSlice(sameHostAllowFlag)
	if err != nil {
		return err
	}
	mode := FlagText(cmd, SameHostFlag)
	if _, err := verbs.ParseSameHost(mode); err != nil {
		return UsageErrorf("--%s: %w", SameHostFlag, err)
	}
	if err := verbs.SetSameHost(verbs.SameHost(mode), users...); err != nil {
		return UsageErrorf("--%s: %w", sameHostAllowFlag, err)
	}
	return nil
}
