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

	tcpCongestionFlag = "tcp-congestion"
)

// AddIWARPFlags adds the flags of iWARP and TLS to a command.
func AddIWARPFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.Bool(NoCRCFlag, false, "iWARP: send no CRCs, if the peer wants none either")
	f.Bool(MarkersFlag, false, "iWARP: ask the peer to send markers (Linux's siw refuses)")
	f.String(tcpCongestionFlag, "", "iWARP: congestion control `NAME` of the system's TCP, for example bbr (default: the system's)")
	AddTLSFlags(cmd)
}

// IWARPFlags returns the iWARP flags that the user gave, TLS included, as arguments.
func IWARPFlags(cmd *cobra.Command) (args []string) {
	for _, name := range [...]string{NoCRCFlag, MarkersFlag} {
		if FlagText(cmd, name) == "true" {
			args = append(args, "--"+name)
		}
	}
	if name := FlagText(cmd, tcpCongestionFlag); name != "" {
		args = append(args, "--"+tcpCongestionFlag+"="+name)
	}
	return append(args, TLSFlags(cmd)...)
}

// checkIWARPFlags refuses the flags of iWARP and TLS for a device of a protocol that has no such thing.
func checkIWARPFlags(cmd *cobra.Command, p Protocol) error {
	given, secure := IWARPFlags(cmd), TLSFlags(cmd)
	switch {
	case p.IWARP() || given == nil:
		return nil
	case len(given) > len(secure):
		name, _, _ := strings.Cut(given[0], "=")
		return UsageErrorf("%s applies to iWARP only: expected --protocol %s", name, ProtocolIWARP)
	case p != "" && p != ProtocolRoCE:
		name, _, _ := strings.Cut(secure[0], "=")
		return UsageErrorf("%s applies to RoCE v2 and iWARP: expected --protocol %s or %s", name, ProtocolRoCE, ProtocolIWARP)
	}
	return nil
}

// applyIWARPFlags copies the iWARP flags other than TLS into a device configuration.
func applyIWARPFlags(cmd *cobra.Command, cfg *verbs.Config) {
	cfg.NoCRC = cfg.NoCRC || FlagText(cmd, NoCRCFlag) == "true"
	cfg.Markers = cfg.Markers || FlagText(cmd, MarkersFlag) == "true"
	cfg.TCPCongestion = FlagText(cmd, tcpCongestionFlag)
}
