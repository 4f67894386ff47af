package cli

import (
	"strings"

	"github.com/spf13/cobra"

	"softrdma/verbs"
)

// Flags of iWARP connections other than those of TLS.
const (
	NoCRCFlag   = "no-crc"
	MarkersFlag = "markers"
)

// AddIWARPFlags adds the flags of iWARP and TLS to a command.
func AddIWARPFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.Bool(NoCRCFlag, false, "iWARP: send no CRCs, if the peer wants none either")
	f.Bool(MarkersFlag, false, "iWARP: ask the peer to send markers (Linux's siw refuses)")
	addTLSFlags(cmd)
}

// IWARPFlags returns the iWARP flags that the user gave, TLS included, as arguments.
func IWARPFlags(cmd *cobra.Command) (args []string) {
	for _, name := range [...]string{NoCRCFlag, MarkersFlag} {
		if FlagText(cmd, name) == "true" {
			args = append(args, "--"+name)
		}
	}
	return append(args, TLSFlags(cmd)...)
}

// checkIWARPFlags refuses the flags of iWARP for a device of another protocol.
func checkIWARPFlags(cmd *cobra.Command, iwarp bool) error {
	given := IWARPFlags(cmd)
	if given == nil || iwarp {
		return nil
	}
	name, _, _ := strings.Cut(given[0], "=")
	return UsageErrorf("%s applies to iWARP only: expected --protocol %s", name, ProtocolIWARP)
}

// applyIWARPFlags copies the iWARP flags other than TLS into a device configuration.
func applyIWARPFlags(cmd *cobra.Command, cfg *verbs.Config) {
	cfg.NoCRC = cfg.NoCRC || FlagText(cmd, NoCRCFlag) == "true"
	cfg.Markers = cfg.Markers || FlagText(cmd, MarkersFlag) == "true"
}
