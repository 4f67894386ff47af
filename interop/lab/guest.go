//go:build interop && linux

package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"softrdma/interop/lab/internal/control"
)

// bootTimeLimit bounds a boot. It takes some 6 s on an idle machine.
const bootTimeLimit = 10 * time.Minute

// Guest is a running virtual machine with the devices rxe0 on eth0 and siw0 on eth1.
type Guest struct {
	Name    string
	IPv4    string // of eth0
	IPv6    string
	IWARPv4 string // of eth1
	IWARPv6 string
	// Console is the file with the output of the guest's kernel and first script.
	Console string

	network *network
	taps    []string // its ports of the bridges

	qemu   *exec.Cmd
	exited chan struct{} // closed when qemu has ended
	ready  chan struct{} // closed when the agent takes requests

	sendMu sync.Mutex
	send   *json.Encoder
	port   net.Conn

	mu        sync.Mutex
	lastID    uint64
	processes map[uint64]*Process
	gone      error // why no request can be answered any more
}

// bootGuest starts the guest with the given index, 0 or 1, and does not wait for it. It makes the taps if there are none.
func bootGuest(ctx context.Context, l *Lab, index int, taps []string) (*Guest, error) {
	g := &Guest{
		Name:      string(rune('a' + index)),
		IPv4:      fmt.Sprintf("10.77.0.%d", 2+index),
		IPv6:      fmt.Sprintf("fd77::%d", 2+index),
		IWARPv4:   fmt.Sprintf("10.78.0.%d", 2+index),
		IWARPv6:   fmt.Sprintf("fd78::%d", 2+index),
		network:   l.network,
		taps:      taps,
		exited:    make(chan struct{}),
		ready:     make(chan struct{}),
		processes: map[uint64]*Process{},
	}
	g.Console = filepath.Join(l.dir, "console-"+g.Name+".log")
	adapters, err := g.addAdapters(ctx, 2+index)
	if err != nil {
		return nil, err
	}
	scratch := filepath.Join(l.dir, "scratch-"+g.Name+".img")
	if err := makeScratch(scratch); err != nil {
		return nil, err
	}
	port, peer, err := socketPair()
	if err != nil {
		return nil, err
	}
	defer peer.Close()
	g.port, g.send = port, json.NewEncoder(port)

	argv := l.network.inside(append([]string{
		"qemu-system-x86_64", "-name", "softrdma-lab-" + g.Name, "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
		"-M", "q35", "-accel", "tcg,thread=multi", "-cpu", l.processor.model, "-smp", l.processor.count, "-m", "1024",
		"-kernel", l.Kernel.Image(), "-initrd", l.initramfs, "-append", g.commandLine(l),
		"-serial", "file:" + g.Console,
		"-virtfs", "local,path=/,mount_tag=host,security_model=none,readonly=on,multidevs=remap",
		"-drive", "if=none,id=scratch,format=raw,cache=unsafe,file=" + scratch, "-device", "virtio-blk-pci,drive=scratch",
		"-device", "virtio-serial-pci", "-chardev", "socket,id=agent,fd=3",
		"-device", "virtserialport,chardev=agent,name=" + control.PortName,
	}, adapters...))
	said, err := os.Create(filepath.Join(l.dir, "qemu-"+g.Name+".log"))
	if err != nil {
		return nil, err
	}
	defer said.Close()
	g.qemu = exec.Command(argv[0], argv[1:]...)
	g.qemu.Stdout, g.qemu.Stderr = said, said
	g.qemu.ExtraFiles = []*os.File{peer}
	g.qemu.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	if err := g.qemu.Start(); err != nil {
		return nil, err
	}
	go func() {
		g.qemu.Wait()
		close(g.exited)
	}()
	go g.receive()
	return g, nil
}

// addAdapters makes the taps of a guest's network adapters if there are none, and returns QEMU's arguments for these. The
// address is the last byte of their MAC addresses.
func (g *Guest) addAdapters(ctx context.Context, address int) (args []string, err error) {
	made := len(g.taps) > 0
	for i, b := range []string{bridge, iwarpBridge} {
		tap := fmt.Sprintf("tap%s%d", g.Name, i)
		if !made {
			g.taps = append(g.taps, tap)
			if err := g.network.addTap(ctx, tap, b); err != nil {
				return nil, err
			}
		}
		args = append(args,
			"-netdev", fmt.Sprintf("tap,id=net%d,ifname=%s,script=no,downscript=no", i, tap),
			"-device", fmt.Sprintf("virtio-net-pci,netdev=net%d,romfile=,mac=52:54:00:%02d:00:%02x", i, 77+i, address))
	}
	return args, nil
}

// makeScratch makes the empty file of a guest's scratch disk, /dev/vda after "modprobe virtio_blk". It takes the space of what
// the guest writes.
func makeScratch(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(f.Truncate(4<<30), f.Close())
}

func (g *Guest) commandLine(l *Lab) string {
	return strings.Join([]string{
		// A panic ends qemu at once, because of -no-reboot. On a busy host the kernel would find its timer broken.
		"console=ttyS0", "loglevel=6", "panic=-1", "no_timer_check", "net.ifnames=0", "mitigations=off", "random.trust_cpu=on", "tsc=reliable",
		"lab.name=" + g.Name, "lab.modules=" + l.Kernel.Modules(), fmt.Sprintf("lab.mtu=%d", MTU),
		"lab.ip4=" + g.IPv4 + "/24", "lab.ip6=" + g.IPv6 + "/64",
		"lab.iwarp4=" + g.IWARPv4 + "/24", "lab.iwarp6=" + g.IWARPv6 + "/64",
	}, " ")
}

// socketPair returns the lab's end of the control channel and the end that qemu inherits.
func socketPair() (net.Conn, *os.File, error) {
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "control"), os.NewFile(uintptr(fds[1]), "qemu's control")
	defer ours.Close()
	conn, err := net.FileConn(ours)
	if err != nil {
		theirs.Close()
		return nil, nil, err
	}
	return conn, theirs, nil
}

// waitReady returns when the guest takes requests.
func (g *Guest) waitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, bootTimeLimit, fmt.Errorf("no agent answered within %v", bootTimeLimit))
	defer cancel()
	select {
	case <-g.ready:
		return nil
	case <-g.exited:
		return g.failure(fmt.Errorf("qemu ended: %v", g.qemu.ProcessState))
	case <-ctx.Done():
		return g.failure(context.Cause(ctx))
	}
}

// failure adds to an error the end of the guest's console and where to read the rest.
func (g *Guest) failure(err error) error {
	console, _ := os.ReadFile(g.Console)
	return fmt.Errorf("guest %s: %w; its console is %s and ends with:\n%s", g.Name, err, g.Console, Tail(string(console), 1500))
}

// receive hands the agent's events to their processes until the guest ends.
func (g *Guest) receive() {
	in := json.NewDecoder(g.port)
	var err error
	for {
		var e control.Event
		if err = in.Decode(&e); err != nil {
			break
		}
		if e.Kind == control.KindReady {
			close(g.ready)
			continue
		}
		g.mu.Lock()
		p := g.processes[e.ID]
		if e.Kind == control.KindExit || e.Kind == control.KindFailed {
			delete(g.processes, e.ID)
		}
		g.mu.Unlock()
		if p != nil {
			p.handle(e)
		}
	}
	if errors.Is(err, io.EOF) {
		err = errors.New("the guest ended")
	}
	g.mu.Lock()
	g.gone = err
	left := g.processes
	g.processes = nil
	g.mu.Unlock()
	for _, p := range left {
		p.handle(control.Event{Kind: control.KindFailed, Error: err.Error()})
	}
}

// Unplug cuts the guest off both networks, without a sign on its side. Plug connects it again.
func (g *Guest) Unplug(ctx context.Context) error { return g.setTaps(ctx, "down") }

// Plug ends Unplug.
func (g *Guest) Plug(ctx context.Context) error { return g.setTaps(ctx, "up") }

// Detach takes the guest off the RoCE network and returns the interface of the lab's network namespace that leads to it.
// Attach puts it back.
func (g *Guest) Detach(ctx context.Context) (name string, err error) {
	return g.taps[0], g.network.setMaster(ctx, g.taps[0], "nomaster")
}

// Attach ends Detach.
func (g *Guest) Attach(ctx context.Context) error {
	return g.network.setMaster(ctx, g.taps[0], "master", bridge)
}

func (g *Guest) setTaps(ctx context.Context, state string) error {
	var errs []error
	for _, tap := range g.taps {
		errs = append(errs, g.network.setTap(ctx, tap, state))
	}
	return errors.Join(errs...)
}

func (g *Guest) request(r control.Request) error {
	g.sendMu.Lock()
	defer g.sendMu.Unlock()
	g.port.SetWriteDeadline(time.Now().Add(10 * time.Second))
	return g.send.Encode(r)
}

// close ends the guest. The agent powers it off when the control channel ends, which also happens when the lab's
// process dies. A guest that does not end is killed.
func (g *Guest) close() {
	g.port.Close()
	select {
	case <-g.exited:
	case <-time.After(5 * time.Second):
		g.qemu.Process.Kill()
		<-g.exited
	}
}
