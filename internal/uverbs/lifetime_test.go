//go:build linux

package uverbs

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"
)

func TestObjectsGoWithTheLastDescriptorOfTheirFile(t *testing.T) {
	s := newServer(t, "127.14.2.1")
	f := newClient(t, s).open("uverbs0")
	newSide(f, 0x1000)
	cm := newClient(t, s).open("rdma_cm")
	q := ucmCreate{PS: 0x106, Response: addrOf(cm.alloc(4))}
	if n := cm.ucm(ucmCreateID, bytesOf(&q), 4); n != 0 {
		t.Fatal(n)
	}
	if c := s.Count(); c.Files != 2 || c.Objects != 6 { // PD, channel, CQ, QP, MR; id
		t.Errorf("%+v", c)
	}
	second, err := unix.Dup(f.fd)
	if err != nil {
		t.Fatal(err)
	}
	unix.Close(f.fd)
	do[handleOnly](f, cmdAllocPD, bytesOf(&response{}), 4)
	unix.Close(second)
	unix.Close(cm.fd)
	f.fd, cm.fd = -1, -1
	eventually(t, "nothing left", func() bool { c := s.Count(); return c.Files == 0 && c.Objects == 0 })
}

// clientEnv makes this test a program that holds objects until it is killed.
const clientEnv = "UVERBS_TEST_SOCKET"

func TestHelperClient(t *testing.T) {
	path := os.Getenv(clientEnv)
	if path == "" {
		t.Skip("not a test: TestKilledProgramLeavesNothing runs it")
	}
	conn, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: path, Net: "unixpacket"})
	if err != nil {
		t.Fatal(err)
	}
	mem, err := unix.Mmap(-1, 0, 1<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		t.Fatal(err)
	}
	s := newSide((&client{t: t, conn: conn, mem: mem}).open("uverbs0"), 0x1000)
	fmt.Printf("ready %d\n", s.qpn)
	select {}
}

func TestKilledProgramLeavesNothing(t *testing.T) {
	s := newServer(t, "127.14.2.2")
	c := exec.Command(os.Args[0], "-test.run=^TestHelperClient$", "-test.v")
	c.Env = append(os.Environ(), clientEnv+"="+s.Socket())
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	qpn := 0
	for r := bufio.NewScanner(out); r.Scan(); {
		if n, _ := fmt.Sscanf(r.Text(), "ready %d", &qpn); n == 1 {
			break
		}
	}
	if n := s.Count(); n.Objects != 5 || n.Processes != 1 {
		t.Errorf("%+v", n)
	}
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = c.Wait()
	eventually(t, "nothing left", func() bool { return s.Count() == Counts{} })
	if n := s.cfg.Device.Counts(); n.QP != 0 || n.MR != 0 {
		t.Errorf("the device has %+v left", n)
	}
}
