package cli

import (
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

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

// DeviceFlag adds -d to a command. otherwise says which device the command uses without
// it.
func DeviceFlag(f *pflag.FlagSet, device *string, otherwise string) {
	f.StringVarP(device, "device", "d", "",
		"use `DEVICE`: an interface or local address, iwarp:DEVICE for iWARP, shared: or shared:SOCKET/rxe1 for a daemon's address (default: "+otherwise+")")
}

// SourceFlag adds -I, which names the device of a client, to a command.
func SourceFlag(f *pflag.FlagSet, source *string) {
	f.StringVarP(source, "source", "I", "", "client: local `INTERFACE-OR-ADDRESS` (default: chosen by the route)")
}

// SilenceFlag adds --timeout, which limits how long the peer may be silent, to a command.
func SilenceFlag(f *pflag.FlagSet, timeout *time.Duration) {
	f.DurationVar(timeout, "timeout", 10*time.Second, "give up when the peer is silent for this `DURATION`")
}

// CheckTimeout checks the value of --timeout.
func CheckTimeout(d time.Duration) error {
	if d <= 0 {
		return UsageErrorf("--timeout: expected a positive duration such as 10s, found %v", d)
	}
	return nil
}

// CheckPort checks the value of -p.
func CheckPort(port uint16) error {
	if port == 0 {
		return UsageErrorf("-p: expected 1 to 65535, found 0")
	}
	return nil
}

// CheckMTU checks the value of -m.
func CheckMTU(mtu int) error {
	switch mtu {
	case 256, 512, 1024, 2048, 4096:
		return nil
	}
	return UsageErrorf("-m: expected 256, 512, 1024, 2048 or 4096, found %d", mtu)
}
