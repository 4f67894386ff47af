package attack_test

import (
	"errors"
	"net"
	"syscall"
	"testing"

	"softrdma/internal/attack"
	"softrdma/internal/attack/honest"
	"softrdma/internal/daemontest"
)

func TestDaemonProcess(t *testing.T) { daemontest.Serve(t) }

// The daemon receives empty and random messages and silent connections on its Unix
// socket. Programs on its devices continue, and it ends without leftovers. Package
// uverbs tests messages with descriptors.
func TestAttackGarbageOnDaemonSocket(t *testing.T) {
	a, b := honest.Address(), honest.Address()
	d := daemontest.Start(t, a, b)
	t.Run("attack", func(t *testing.T) {
		honest.LeavesNothing(t)
		p := honest.NewPair(t, honest.Config{A: d.Name(a), B: d.Name(b)})
		honest.Meanwhile(t, func() error {
			var open []net.Conn
			defer func() {
				for _, c := range open {
					c.Close()
				}
			}()
			for i := range attack.Count(100) {
				c, err := net.Dial("unixpacket", d.Socket())
				if err != nil {
					return err
				}
				_, err = c.Write(noise(uint64(i)))
				if err != nil && !errors.Is(err, syscall.EPIPE) && !errors.Is(err, syscall.ECONNRESET) {
					return err
				}
				if i%4 == 0 && len(open) < 50 {
					open = append(open, c)
					continue
				}
				c.Close()
			}
			return nil
		}, func() { p.Round(t, 5000) })
	})
	d.End(t)
}
