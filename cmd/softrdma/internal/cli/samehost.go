package cli

import (
	"strings"

	"github.com/spf13/cobra"

	"softrdma/verbs"
)

// Flags that say how peers on this host are reached.
const (
	SameHostFlag      = "same-host"
	SameHostAllowFlag = "same-host-allow"
)

// addSameHostFlags adds the flags to a command that opens a device.
func addSameHostFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.String(SameHostFlag, string(verbs.SameHostAuto), "reach other processes on this host through shared memory: auto, off (network only) or require (`MODE`)")
	f.StringSlice(SameHostAllowFlag, nil, "`USERS` besides this one whose processes may be reached so: names or numbers, or all")
}

// ApplySameHostFlags applies the flags to all devices that this process opens, also to
// those that the connection manager chooses. The commands for tests and measurements of
// networks call it before they open devices; OpenDevice and OpenLocal call it themselves.
func ApplySameHostFlags(cmd *cobra.Command, device string) error {
	mode := FlagText(cmd, SameHostFlag)
	if mode == "" {
		return nil // a command without the flags
	}
	if strings.HasPrefix(device, DaemonPrefix) && (FlagGiven(cmd, SameHostFlag) || FlagGiven(cmd, SameHostAllowFlag)) {
		return UsageErrorf("--%s: expected a device of this process, found %s: give it to softrdma daemon", SameHostFlag, device)
	}
	users, err := cmd.Flags().GetStringSlice(SameHostAllowFlag)
	if err != nil {
		return err
	}
	if err := verbs.SetSameHost(verbs.SameHost(mode), users...); err != nil {
		return UsageErrorf("--%s: %w", SameHostFlag, err)
	}
	return nil
}

// SameHostFlags returns the flags to pass to a child process.
func SameHostFlags(cmd *cobra.Command) []string {
	args := []string{"--" + SameHostFlag + "=" + FlagText(cmd, SameHostFlag)}
	if users, err := cmd.Flags().GetStringSlice(SameHostAllowFlag); err == nil && len(users) > 0 {
		args = append(args, "--"+SameHostAllowFlag+"="+strings.Join(users, ","))
	}
	return args
}

// PathName returns the word by which a command names the path of a connection, "unknown"
// for one of a daemon.
func PathName(q *verbs.QP) string {
	if p := q.Path(); p != verbs.PathUnknown {
		return string(p)
	}
	return "unknown"
}
