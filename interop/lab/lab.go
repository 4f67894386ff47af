//go:build interop && linux

package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// Lab is a network with one or two guests on it.
type Lab struct {
	Kernel Kernel
	Guests []*Guest

	network   *network
	dir       string // logs, and the files of this run
	initramfs string
	count     int
	processor Processor
}

// Open makes the lab with the given number of guests, 1 or 2, and their processor. A [*LackError] says what this machine
// lacks.
func Open(ctx context.Context, guests int, p Processor) (*Lab, error) {
	if guests < 1 || guests > 2 {
		return nil, fmt.Errorf("a lab has 1 or 2 guests, not %d", guests)
	}
	if err := InstallPackages(ctx); err != nil {
		return nil, err
	}
	cache, err := cacheDir()
	if err != nil {
		return nil, err
	}
	removeOldRuns(cache)
	l := &Lab{count: guests, processor: p}
	if err := l.open(ctx, cache); err != nil {
		l.Close(true)
		return nil, err
	}
	return l, nil
}

func (l *Lab) open(ctx context.Context, cache string) (err error) {
	if l.Kernel, err = fetchKernel(ctx, cache); err != nil {
		return err
	}
	if err = provideSiw(ctx, cache, l.Kernel); err != nil {
		return err
	}
	if l.dir, err = os.MkdirTemp(cache, "run-*"); err != nil {
		return err
	}
	if l.initramfs, err = buildInitramfs(ctx, l.Kernel, l.processor, l.dir); err != nil {
		return err
	}
	if l.network, err = newNetwork(ctx); err != nil {
		return err
	}
	for i := range l.count {
		g, err := bootGuest(ctx, l, i, nil)
		if err != nil {
			return err
		}
		l.Guests = append(l.Guests, g)
	}
	for _, g := range l.Guests {
		if err := g.waitReady(ctx); err != nil {
			return err
		}
	}
	return nil
}

// PowerOff ends a guest at once, as a power failure does. Boot starts it again.
func (l *Lab) PowerOff(index int) {
	g := l.Guests[index]
	g.qemu.Process.Kill()
	<-g.exited
}

// Boot boots a guest that was powered off. It is another [Guest], which takes its place and its ports of the bridges: with
// other ports the bridge would have another address, and the other guest lose packets.
func (l *Lab) Boot(ctx context.Context, index int) error {
	old := l.Guests[index]
	old.close()
	g, err := bootGuest(ctx, l, index, old.taps)
	if err != nil {
		return err
	}
	l.Guests[index] = g
	return g.waitReady(ctx)
}

// Host returns a command that runs on the host, in the lab's network, and ends with the lab's process or with ctx.
func (l *Lab) Host(ctx context.Context, argv ...string) *exec.Cmd {
	argv = l.network.inside(argv)
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	cmd.WaitDelay = time.Second
	return cmd
}

// Dir returns the folder for the run's files. It is removed when the lab is closed without a failure.
func (l *Lab) Dir() string { return l.dir }

// Close ends the guests and removes the network. After a failure the run's folder with the logs stays.
func (l *Lab) Close(failed bool) {
	for _, g := range l.Guests {
		g.close()
	}
	if l.network != nil {
		l.network.close()
	}
	if l.dir != "" && !failed {
		os.RemoveAll(l.dir)
	}
}

// removeOldRuns removes the folders of runs that failed more than a day ago.
func removeOldRuns(cache string) {
	runs, _ := filepath.Glob(filepath.Join(cache, "run-*"))
	for _, run := range runs {
		if st, err := os.Stat(run); err == nil && time.Since(st.ModTime()) > 24*time.Hour {
			os.RemoveAll(run)
		}
	}
}

// IsLack reports whether an error is a [*LackError].
func IsLack(err error) bool {
	lack := (*LackError)(nil)
	return errors.As(err, &lack)
}
