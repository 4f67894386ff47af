package honest

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"testing"

	"softrdma/internal/capture"
	"softrdma/verbs"
)

// Overhear returns the packets that a device sends and receives while f runs, as an
// attacker on the path sees them.
func Overhear(t testing.TB, d *verbs.Device, f func()) (list []capture.Packet) {
	t.Helper()
	var file bytes.Buffer
	c, err := d.Capture(&file)
	if err != nil {
		t.Fatal(err)
	}
	f()
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	// Ports of devices on ::1, the only IPv6 loopback address.
	ports := make([]uint16, 0, 32)
	for p := range uint16(32) {
		ports = append(ports, 4800+p)
	}
	r, err := capture.NewReader(&file, ports...)
	if err != nil {
		t.Fatal(err)
	}
	for {
		var p capture.Packet
		if err := r.Next(&p); errors.Is(err, io.EOF) {
			return list
		} else if err != nil {
			t.Fatal(err)
		}
		p.Payload = slices.Clone(p.Payload)
		list = append(list, p)
	}
}

// Sent returns the outbound packets of an overheard device.
func Sent(list []capture.Packet, d *verbs.Device) (sent []capture.Packet) {
	for _, p := range list {
		if p.Direction == capture.Outbound {
			sent = append(sent, p)
		}
	}
	return sent
}
