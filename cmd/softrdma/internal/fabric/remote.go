package fabric

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"

	"github.com/spf13/cobra"

	"softrdma/cmd/softrdma/internal/cli"
	"softrdma/internal/fabric/live"
	"softrdma/internal/fabric/relay"
	"softrdma/internal/reason"
	"softrdma/internal/topology"
)

// Flags that name files with secrets.
const (
	attachSecretFlag = "attach-secret"
	trunkSecretFlag  = "trunk-secret"
)

// admit reads the flags for programs on other hosts. Without a secret only those of this host may
// attach, because a program at a port can manage the subnet, or send what
// it wants from a host of an Ethernet.
func (b *builder) admit(cmd *cobra.Command, c *live.Config) error {
	secret, err := cli.FileOf(cmd, attachSecretFlag)
	if err != nil {
		return err
	}
	if b.attach == "" {
		if secret != "" {
			return cli.UsageErrorf("--%s: expected --attach with it", attachSecretFlag)
		}
		return nil
	}
	local, err := net.ResolveUDPAddr("udp", b.attach)
	if err != nil || local.Port == 0 {
		return cli.UsageErrorf("--attach: expected an address and a UDP port such as :7701, found %q", b.attach)
	}
	at := local.AddrPort()
	c.Remote.Listen = netip.AddrPortFrom(at.Addr().Unmap(), at.Port())
	if secret == "" {
		if !c.Remote.Listen.Addr().IsLoopback() {
			return cli.UsageErrorf("--attach: expected --%s, because programs of other hosts reach %s", attachSecretFlag, b.attach)
		}
		return nil
	}
	c.Remote.Secret, err = readSecret(cmd, attachSecretFlag, secret)
	return err
}

// readSecret reads the file of a flag.
func readSecret(cmd *cobra.Command, flag, file string) ([]byte, error) {
	secret, err := relay.ReadSecret(file)
	if err != nil {
		return nil, fmt.Errorf("--%s: %w", flag, err)
	}
	cli.WarnIfReadable(cmd.ErrOrStderr(), flag, file)
	return secret, nil
}

// visitorNews prints what programs on other hosts do.
func visitorNews(out io.Writer, f *topology.Fabric) func(topology.End, live.Caller, reason.Detail) {
	return func(at topology.End, who live.Caller, why reason.Detail) {
		text := "is attached"
		switch why.Reason {
		case reason.None:
		case reason.FabricRemoteClosed:
			text = "has left"
		default:
			text = fmt.Sprintf("is lost: %v (%v)", why, why.Reason)
		}
		fmt.Fprintf(out, "%s: %s at %v %s\n", strings.Map(plain, f.EndName(at)), strings.Map(plain, who.Program), who.From, text)
	}
}
