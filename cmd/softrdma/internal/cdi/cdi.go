// Package cdi is the command that gives containers an RDMA device, through the Container Device
// Interface. Package internal/cdi has the specification and the files that it names.
package cdi

import (
	"strings"

	"github.com/spf13/cobra"

	"softrdma/cmd/softrdma/internal/cli"
	"softrdma/internal/cdi"
)

const long = `Makes RDMA devices known to container engines through the Container Device Interface
(CDI): podman 4.1 and later, Docker 25 and later, containerd 1.7 and later, CRI-O.

Unmodified programs in the container then find a device, rxe0, on the container's own
address. The first RDMA call of a program starts it, and it ends after the last one. The
image needs nothing but a distribution's packages (Debian: ibverbs-providers, and what
the programs need). The container gets environment variables and read-only files; no
capability, no device node and no privilege.

  auto    a device on the address of the container
  shared  the same, and containers on this host that have it exchange packets through
          memory. They share a folder of the host, to which they can write.

What engines cannot do with CDI, "softrdma cdi flags" does with ordinary flags.`

const example = `  softrdma cdi generate
  podman run --device softrdma/rdma=auto IMAGE ib_write_bw`

const generateLong = `Copies what containers need to a directory of the host, and writes a CDI specification
of the devices auto and shared. Run it again after an upgrade: containers that run keep
what they have, new ones get the new files. Older copies that no specification names and
no container has mounted are removed.

Root writes /etc/cdi/softrdma-rdma.json, for all users and engines, and keeps the files
in /var/lib/softrdma. Other users write $XDG_CONFIG_HOME/cdi (~/.config/cdi), where
rootless Docker looks; podman does with --cdi-spec-dir. Their files are in
$XDG_DATA_HOME/softrdma (~/.local/share/softrdma).

Engines read /etc/cdi and /var/run/cdi, podman only the first. Devices of another --name
share another folder.`

// options holds the flags.
type options struct {
	output string // directory of specifications
	kind   string
	store  string
	exec   bool // flags for a program in a container that runs
	podman bool // flags that Docker does not take
}

// NewCommand returns the command.
func NewCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "cdi", Short: "Give containers an RDMA device",
		Long: long, Example: example, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(
		newCommand("generate", "Write a CDI specification, and the files that it names", generateLong,
			`  softrdma cdi generate
  softrdma cdi generate --output /var/run/cdi
  softrdma cdi generate --name softrdma/team-a`, generate, true),
		newCommand("list", "List softrdma's devices for containers",
			`Lists the devices of softrdma's CDI specifications: in /etc/cdi and /var/run/cdi, and
those that generate has written elsewhere. Files of another build are "old".`,
			`  softrdma cdi list`, list, false),
		newCommand("remove", "Remove a CDI specification, and files that no other one needs",
			`Removes the specification that generate writes with the same flags, and then files and
shared folders that no specification names. Programs in containers that use these files
still run; those that they start later find no device.`,
			`  softrdma cdi remove
  softrdma cdi remove --name softrdma/team-a`, remove, true),
		newFlags(),
	)
	return cmd
}

func newCommand(name, short, long, example string, run func(*cobra.Command, *options) error, named bool) *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use: name, Short: short, Long: long, Example: example, Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return run(cmd, &o) },
	}
	if named {
		cmd.Flags().StringVarP(&o.output, "output", "o", "", "`DIRECTORY` of the specification (default /etc/cdi for root, ~/.config/cdi for users)")
		cmd.Flags().StringVar(&o.kind, "name", cdi.DefaultKind, "`VENDOR/CLASS` of the devices")
	}
	o.addStore(cmd)
	return cmd
}

func newFlags() *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use: "flags [DEVICE]", Short: "Print the flags by which an engine without CDI gives a container a device",
		Long: `Copies what containers need to a directory of the host, and prints the flags of "docker
run" and "podman run" for a device: auto, which is the default, or shared. It is for
engines that know no CDI, such as Docker before 25, and for users who may write no
specification.

Programs that "podman exec" or "docker exec" start in a container with a CDI device do
not get the environment of the device. --exec prints the flag that they need.`,
		Example: `  docker run $(softrdma cdi flags) IMAGE ib_write_bw
  podman run $(softrdma cdi flags --podman shared) IMAGE ib_write_bw
  podman exec $(softrdma cdi flags --exec) CONTAINER ibv_devinfo`,
		Args: cli.Args(0, 1, "one DEVICE, "+strings.Join(cdi.Devices, " or ")), ValidArgs: cdi.Devices,
		RunE: func(cmd *cobra.Command, args []string) error {
			device := cdi.Auto
			if len(args) > 0 {
				device = args[0]
			}
			return flags(cmd, &o, device)
		},
	}
	cmd.Flags().StringVar(&o.kind, "name", cdi.DefaultKind, "`VENDOR/CLASS` whose shared folder it is")
	cmd.Flags().BoolVar(&o.exec, "exec", false, "print the flag of podman exec and docker exec, for containers that have the device")
	cmd.Flags().BoolVar(&o.podman, "podman", false, "mount with nosuid and nodev, and the shared folder with noexec, as CDI does; Docker refuses these options")
	o.addStore(cmd)
	return cmd
}

func (o *options) addStore(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.store, "store", "", "`DIRECTORY` of the host for the files of containers (default /var/lib/softrdma for root, ~/.local/share/softrdma for users)")
}
