package compare

import (
	"fmt"

	"softrdma/internal/testenv/twohosts"
)

// Veth returns a path between two network namespaces over a pair of virtual Ethernet
// interfaces with the given MTU. It requires root.
func Veth(mtu int) (*Path, error) {
	h, err := twohosts.Cable(mtu)
	if err != nil {
		return nil, err
	}
	return &Path{
		Name: fmt.Sprintf("veth, MTU %d", mtu), MTU: mtu, Device: h.Device, Client: h.Client, Server: h.Server, Inside: h.Inside, close: h.Close,
	}, nil
}
