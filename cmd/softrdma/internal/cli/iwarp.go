package cli

import (
	"strings"

	"github.com/spf13/cobra"

	"softrdma/verbs"
)

// The flags of iWARP connections, beside those of TLS.
const (
	NoCRCFlag   = "no-crc"
	MarkersFlag = "markers"
)

func AddIWARPFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.Bool(NoCRCFlag, false, "iWARP without CRCs, where the peer wants none either")
	f.Bool(MarkersFlag, false, "iWARP with markers in what the peer sends; Linux's siw has none, and refuses")
	addTLSFlags(cmd)
}

// IWARPFlags are those of iWARP that were given, TLS's included, as arguments.
func IWARPFlags(cmd *cobra.Command) (args []string) {
	for _, name := range [...]string{NoCRCFlag, MarkersFlag} {
		if FlagText(cmd, name) == "true" {
			args = append(args, "--"+name)
		}
	}
	return append(args, TLSFlags(cmd)...)
}

// checkIWARPFlags refuses the flags of iWARP for another protocol.
func checkIWARPFlags(cmd *cobra.Command, iwarp bool) error {
	if given := IWARPFlags(cmd); given != nil && !iwarp {
		name, _, _ := strings.Cut(given[0], "=")
		return UsageErrorf("%s is iWARP's, expected --protocol %s", name, ProtocolIWARP)
	}
	return nil
}

// applyIWARPFlags puts what the flags say into a device's configuration, but for TLS.
func applyIWARPFlags(cmd *cobra.Command, cfg *verbs.Config) {
	cfg.NoCRC = cfg.NoCRC || FlagText(cmd, NoCRCFlag) == "true"
	cfg.Markers = cfg.Markers || FlagText(cmd, MarkersFlag) == "true"
}
