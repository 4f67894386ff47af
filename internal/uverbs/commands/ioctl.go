//go:build linux

package commands

import (
	"fmt"
	"syscall"

	"softrdma/internal/uverbs/client"
	"softrdma/internal/wire/uapi"
)

// Ioctl implements client.Service. Libraries know kernels without this interface, and write
// their commands then. Only what cannot be written is executed: ADVISE_MR.
func (x *context) Ioctl(c *client.Call, number, arg uint64) error {
	if number != uapi.VerbsIoctl {
		return syscall.ENOTTY
	}
	var h uapi.IoctlHeader
	if err := c.Process.Load(uapi.Bytes(&h), arg); err != nil {
		return err
	}
	if h.Object != uapi.ObjectMR || h.Method != uapi.MethodAdviseMR {
		return syscall.ENOTTY
	}
	size := uapi.Size[uapi.IoctlAttr]()
	if h.Attrs > uapi.MaxIoctlAttrs || int(h.Length) != uapi.Size[uapi.IoctlHeader]()+int(h.Attrs)*size {
		return fmt.Errorf("ioctl of %d attributes in %d bytes: %w", h.Attrs, h.Length, syscall.EINVAL)
	}
	var attrs [uapi.MaxIoctlAttrs]uapi.IoctlAttr
	list := attrs[:h.Attrs]
	for i := range list {
		if err := c.Process.Load(uapi.Bytes(&list[i]), arg+uint64(uapi.Size[uapi.IoctlHeader]()+i*size)); err != nil {
			return err
		}
	}
	a, ok := uapi.AdviseMROf(list)
	if !ok {
		return fmt.Errorf("attributes of ADVISE_MR: %w", syscall.EINVAL)
	}
	if err := x.dev.Adapter.FailCall("ibv_advise_mr"); err != nil {
		return err
	}
	return x.adviseMR(c, &a)
}
