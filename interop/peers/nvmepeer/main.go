// Nvmepeer is a target of softrdma whose device outlives it, as Linux's device outlives nvmet: while there is no target,
// hosts are rejected at once.
//
//	nvmepeer -a 10.77.0.1 -size 377487360 disk.img
//
// Each line of its input is the name of a subsystem with the disk, or empty. It ends the target that there is, begins one
// for the name, and prints "ready" and the number of the line.
package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"strconv"

	"softrdma/rdmacm"
	"softrdma/storage/block"
	"softrdma/storage/nvmeof/controller"
	"softrdma/storage/nvmeof/target"
	"softrdma/storage/nvmeof/wire/fabrics"
	"softrdma/verbs"
)

func main() {
	address := flag.String("a", "", "the device's `address`")
	size := flag.Int64("size", 0, "`bytes` of the disk")
	flag.Parse()
	if err := run(*address, flag.Arg(0), *size); err != nil {
		fmt.Fprintln(os.Stderr, "nvmepeer:", err)
		os.Exit(1)
	}
}

func run(address, file string, size int64) (err error) {
	dev, err := verbs.Open(address, verbs.Config{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dev.Close()) }()
	disk, err := block.OpenFile(file, block.FileConfig{Size: size})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, disk.Close()) }()
	var t *target.Target
	end := func() error {
		if t == nil {
			return nil
		}
		err := t.Close()
		t = nil
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	lines := bufio.NewScanner(os.Stdin)
	for n := 1; lines.Scan(); n++ {
		if err := end(); err != nil {
			return err
		}
		if nqn := lines.Text(); nqn != "" {
			if t, err = begin(dev, nqn, disk); err != nil {
				return err
			}
		}
		fmt.Printf("ready %d.\n", n)
	}
	return lines.Err()
}

// begin returns a target that listens on a device.
func begin(dev *verbs.Device, nqn string, disk block.Backend) (*target.Target, error) {
	t, err := target.New(target.Config{Events: func(e target.Event) { fmt.Println(e) }})
	if err != nil {
		return nil, err
	}
	sub := &controller.Subsystem{NQN: nqn}
	err = t.AddSubsystem(sub)
	if err == nil {
		err = t.AddNamespace(sub, 1, disk, false)
	}
	if err == nil {
		_, err = t.Listen(net.JoinHostPort(dev.Addr().Addr().String(), strconv.Itoa(fabrics.Port)), rdmacm.ListenConfig{Device: dev})
	}
	if err != nil {
		return nil, errors.Join(err, t.Close())
	}
	return t, nil
}
