// Package kubernetes is the command that offers softrdma's devices to the pods of a Kubernetes node.
// Package internal/cdi says what a container gets; this package speaks with kubelet, and watches
// what containers of the node need.
package kubernetes

import (
	"github.com/spf13/cobra"

	"softrdma/cmd/softrdma/internal/cli"
)

const long = `Offers RDMA devices to the pods of a Kubernetes cluster.

"softrdma kubernetes device-plugin" runs on each node. Pods then ask for a device by a
resource, and run images that know nothing of softrdma.`

const example = `  softrdma kubernetes device-plugin
  kubectl apply -f packaging/kubernetes/device-plugin.yaml`

// NewCommand returns the command.
func NewCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "kubernetes", Short: "Offer RDMA devices to pods",
		Long: long, Example: example, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newDevicePlugin())
	return cmd
}

const pluginLong = `Offers RDMA devices to the pods of this node, until it is interrupted. A container
that asks for the resource softrdma/rdma: 1 finds a device on its own address, in its
own network namespace. Its image needs no change, and the pod no privileges.

The device plug-in copies the files that containers mount to the node, writes the CDI
specification that "softrdma cdi generate" writes, and registers each --resource with
kubelet. Pods that were written for other devices run unchanged if the resource has the
name that they ask for. COUNT is how many containers of the node can have it at a time,
by default 1000: they share nothing, so it is no limit of the device.

By default kubelet gives the container runtime the name of a CDI device. CRI-O and
containerd 2 know CDI; containerd 1.7 needs enable_cdi in its configuration. With
--inject mounts kubelet gives the runtime the same environment and mounts itself, which
every runtime knows.

With --shared containers of the node share a folder, by which they exchange packets
through memory.

The resources are reported as unhealthy while files that containers need are missing,
until the plug-in has restored them, and while --interface is gone or down. The plug-in
registers again when kubelet restarts. Containers that run keep their devices when the
plug-in ends.`

const pluginExample = `  softrdma kubernetes device-plugin
  softrdma kubernetes device-plugin --resource rdma/hca_shared_devices_a=500
  softrdma kubernetes device-plugin --inject mounts --resource softrdma/rdma --resource nvidia.com/rdma`

// Values of --inject.
const (
	injectCDI    = "cdi"
	injectMounts = "mounts"
)

// kubeletDir is where kubelet and device plug-ins have their sockets.
const kubeletDir = "/var/lib/kubelet/device-plugins"

// options holds the flags of device-plugin.
type options struct {
	resources []string
	inject    string
	shared    bool
	iface     string
	dir       string
	output    string
	store     string
}

func newDevicePlugin() *cobra.Command {
	var s options
	cmd := &cobra.Command{
		Use: "device-plugin [flags]", Short: "Serve kubelet's device plug-in API on this node",
		Long: pluginLong, Example: pluginExample, Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return run(cmd, &s) },
	}
	f := cmd.Flags()
	f.StringArrayVar(&s.resources, "resource", []string{defaultResource}, "`NAME[=COUNT]` of a resource; repeat for more")
	f.StringVar(&s.inject, "inject", injectCDI, "`HOW` a container gets its device: cdi, or mounts for runtimes without CDI")
	f.BoolVar(&s.shared, "shared", false, "containers of the node exchange packets through memory, in a folder that they share")
	f.StringVar(&s.iface, "interface", "", "the devices are healthy only while this network `INTERFACE` of the node is up")
	f.StringVar(&s.output, "output", "", "`DIRECTORY` of the CDI specification (default /etc/cdi for root, ~/.config/cdi for users)")
	f.StringVar(&s.store, "store", "", "`DIRECTORY` of the host for the files of containers (default /var/lib/softrdma for root, ~/.local/share/softrdma for users)")
	f.StringVar(&s.dir, "plugin-dir", kubeletDir, "`DIRECTORY` with kubelet's socket")
	cli.CompleteFlag(cmd, "inject", injectCDI, injectMounts)
	return cmd
}
