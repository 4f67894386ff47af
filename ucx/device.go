package ucx

import (
	"errors"
	"net/netip"
	"os"
	"strconv"
	"sync"
	"syscall"

	"softrdma/verbs"
)

// deviceVariable is the environment variable that names the device.
const deviceVariable = "SOFTRDMA_DEVICE"

// otherPorts is how many UDP ports from verbs.Port on are tried if other processes use them.
const otherPorts = 64

// A device is a device that contexts share.
type device struct {
	*verbs.Device
	name  string
	users int // contexts and workers
}

var devices struct {
	sync.Mutex
	open map[string]*device
}

// openDevice returns the device that the environment names. The caller releases it.
func openDevice() (*device, error) {
	name := os.Getenv(deviceVariable)
	devices.Lock()
	defer devices.Unlock()
	if d := devices.open[name]; d != nil {
		d.users++
		return d, nil
	}
	dev, err := verbs.Open(name, verbs.Config{})
	if errors.Is(err, syscall.EADDRINUSE) {
		dev, err = openBeside(name, err)
	}
	if err != nil {
		return nil, err
	}
	d := &device{dev, name, 1}
	if devices.open == nil {
		devices.open = map[string]*device{}
	}
	devices.open[name] = d
	return d, nil
}

// openBeside opens a device on another port of an address whose first port another process has
// open.
func openBeside(name string, busy error) (*verbs.Device, error) {
	list, err := verbs.Devices()
	if err != nil {
		return nil, busy
	}
	at, _ := netip.ParseAddr(name)
	for _, i := range list {
		if !at.IsValid() && (name == i.Interface || name == "" && i.Best) {
			at = i.Addr
		}
	}
	if !at.IsValid() {
		return nil, busy
	}
	for port := verbs.Port + 1; port < verbs.Port+otherPorts; port++ {
		dev, err := verbs.Open("["+at.String()+"]:"+strconv.Itoa(port), verbs.Config{})
		if err == nil || !errors.Is(err, syscall.EADDRINUSE) {
			return dev, err
		}
	}
	return nil, busy
}

// retain adds a user.
func (d *device) retain() *device {
	devices.Lock()
	defer devices.Unlock()
	d.users++
	return d
}

// release removes a user. The last one closes the device.
func (d *device) release() error {
	devices.Lock()
	defer devices.Unlock()
	if d.users--; d.users > 0 {
		return nil
	}
	delete(devices.open, d.name)
	return d.Close()
}
