//go:build linux

// Command etherswitch is an Ethernet switch of softrdma between interfaces of Linux, such as the taps of virtual machines.
//
//	etherswitch INTERFACE…
//
// It prints "listening" when it forwards, and each second the frames that it has forwarded and dropped.
package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"softrdma/internal/fabric/bridge"
	"softrdma/internal/fabric/dcb"
	"softrdma/internal/reason"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "etherswitch:", err)
		os.Exit(1)
	}
}

const (
	// longest is the length of the longest frame. Larger ones, of which the adapter is to make several, are dropped: Linux
	// makes none after "ip link set eth0 gso_max_segs 1".
	longest = 9000 + 22
	// headerLen is the length of Linux's struct virtio_net_hdr, which is before each frame.
	headerLen = 10
	// needsChecksum is the flag of a frame whose sender leaves the checksum to its adapter.
	needsChecksum = 1
)

// A world is the switch, its interfaces, and the time.
type world struct {
	sw        *bridge.Switch
	pool      dcb.Pool
	began     time.Time
	sockets   []int // by port, from 1 on
	due       []dcb.Time
	forwarded int
	dropped   map[reason.Reason]int
	failed    error
}

func run(interfaces []string) error {
	link := &dcb.PortConfig{Speed: 100 * dcb.Gbit, MTU: longest}
	ports := make([]bridge.PortConfig, 1+len(interfaces))
	w := &world{began: time.Now(), sockets: []int{-1}, due: slices.Repeat([]dcb.Time{dcb.Never}, len(ports)), dropped: map[reason.Reason]int{}}
	for i, name := range interfaces {
		fd, err := open(name)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		w.sockets = append(w.sockets, fd)
		ports[i+1].Link = link
	}
	w.sw = bridge.New(bridge.Config{Ports: ports, Address: 0x0200000000ff, StoreAndForward: true}, w, &w.pool)
	for i := range interfaces {
		w.sw.SetLink(0, i+1, true)
	}
	fmt.Println("listening")
	return w.forward()
}

// open opens an interface for all frames, with the header that says what is left to the adapter.
func open(name string) (int, error) {
	i, err := net.InterfaceByName(name)
	if err != nil {
		return 0, err
	}
	all := binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, unix.ETH_P_ALL))
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	return fd, errors.Join(
		unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_VNET_HDR, 1),
		unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1),
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 16<<20),
		unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: i.Index}),
		unix.SetsockoptPacketMreq(fd, unix.SOL_PACKET, unix.PACKET_ADD_MEMBERSHIP, &unix.PacketMreq{Ifindex: int32(i.Index), Type: unix.PACKET_MR_PROMISC}),
	)
}

func (w *world) now() dcb.Time { return dcb.Time(time.Since(w.began)) * dcb.Nanosecond }

// forward moves frames until an interface fails.
func (w *world) forward() error {
	polled := make([]unix.PollFd, len(w.sockets)-1)
	for i := range polled {
		polled[i] = unix.PollFd{Fd: int32(w.sockets[i+1]), Events: unix.POLLIN}
	}
	buffer := make([]byte, headerLen+longest)
	reported := time.Now()
	for w.failed == nil {
		for port := 1; port < len(w.sockets); port++ {
			for range 64 { // then the others
				n, err := unix.Read(w.sockets[port], buffer)
				if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) {
					break
				}
				if err != nil {
					return err
				}
				w.receive(port, buffer[:n])
			}
		}
		wait := w.runDue()
		if time.Since(reported) > time.Second {
			reported = time.Now()
			fmt.Printf("forwarded %d, dropped %v\n", w.forwarded, w.dropped)
		}
		if _, err := unix.Poll(polled, wait); err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
	}
	return w.failed
}

// runDue runs the ports that are due, and returns for how many milliseconds none is.
func (w *world) runDue() int {
	for {
		next := slices.Min(w.due)
		now := w.now()
		if next > now {
			if next == dcb.Never {
				return 1000
			}
			return int(min((next-now)/dcb.Millisecond, 1000))
		}
		port := slices.Index(w.due, next)
		w.due[port] = dcb.Never
		w.sw.Run(now, port)
	}
}

// receive gives the switch a frame from Linux, with the checksum that its sender left out.
func (w *world) receive(port int, b []byte) {
	header, frame := b[:headerLen], b[headerLen:]
	start, offset := int(binary.NativeEndian.Uint16(header[6:])), int(binary.NativeEndian.Uint16(header[8:]))
	if header[0]&needsChecksum != 0 && start+offset+2 <= len(frame) {
		complete(frame[start:], offset)
	}
	f := w.pool.Frame()
	f.Data = append(f.Data[:0], frame...)
	f.Len = int32(max(len(frame)+4, dcb.MinFrame))
	if d := f.Parse(); d.Reason != reason.None {
		w.dropped[d.Reason]++
		w.pool.Put(f)
		return
	}
	now := w.now()
	f.Tail = now
	w.sw.Receive(now, port, f)
}

// complete puts the checksum of all bytes at an offset, where the sum of the pseudo header is (RFC 1071).
func complete(b []byte, offset int) {
	sum := uint64(0)
	for i, x := range b {
		sum += uint64(x) << (8 * (1 ^ i&1))
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	binary.BigEndian.PutUint16(b[offset:], ^uint16(sum))
}

// Transmit implements dcb.Env.
func (w *world) Transmit(_ dcb.Time, port int, f *dcb.Frame) {
	defer w.pool.Put(f)
	if f.Op != 0 {
		return // the interfaces of Linux do not pause
	}
	_, err := unix.Writev(w.sockets[port], [][]byte{make([]byte, headerLen), f.Data})
	switch {
	case errors.Is(err, unix.ENOBUFS) || errors.Is(err, unix.EAGAIN): // the queue of the interface is full
		w.dropped[reason.EthernetQueueFull]++
	case err != nil:
		w.failed = err
	default:
		w.forwarded++
	}
}

// Schedule implements dcb.Env.
func (w *world) Schedule(port int, at dcb.Time) { w.due[port] = at }

// Deliver implements dcb.Env. The switch takes no frames for itself.
func (w *world) Deliver(dcb.Time, int, *dcb.Frame) bool { return false }

// Dropped implements dcb.Env.
func (w *world) Dropped(_ dcb.Time, _ int, _ *dcb.Frame, d reason.Detail) { w.dropped[d.Reason]++ }
