package main

import (
	"strings"

	"github.com/spf13/cobra"

	"softrdma/verbs"
)

// The flags of iWARP connections, beside those of TLS.
const (
	noCRCFlag   = "no-crc"
	markersFlag = "markers"
)

func addIWARPFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.Bool(noCRCFlag, false, "iWARP without CRCs, where the peer wants none either")
	f.Bool(markersFlag, false, "iWARP with markers in what the peer sends; Linux's siw has none, and refuses")
	addSecurityFlags(cmd)
}

// iwarpFlags are those of iWARP that were given, TLS's included, as arguments.
func iwarpFlags(cmd *cobra.Command) (args []string) {
	for _, name := range [...]string{noCRCFlag, markersFlag} {
		if flagText(cmd, name) == "true" {
			args = append(args, "--"+name)
		}
	}
	return append(args, securityFlags(cmd)...)
}

// wantsIWARP refuses the flags of iWARP for another protocol.
func wantsIWARP(cmd *cobra.Command, iwarp bool) error {
	if given := iwarpFlags(cmd); given != nil && !iwarp {
		name, _, _ := strings.Cut(given[0], "=")
		return usageErrorf("%s is iWARP's, expected --protocol %s", name, protocolIWARP)
	}
	return nil
}

// applyIWARPFlags puts what the flags say into a device's configuration, but for TLS.
func applyIWARPFlags(cmd *cobra.Command, cfg *verbs.Config) {
	cfg.NoCRC = cfg.NoCRC || flagText(cmd, noCRCFlag) == "true"
	cfg.Markers = cfg.Markers || flagText(cmd, markersFlag) == "true"
}
