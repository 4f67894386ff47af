package attach

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"softrdma/internal/reason"
	"softrdma/internal/rundir"
)

// systemDirectory has the sockets of root's fabrics. Other users look there as well, and may
// use the fabrics if root opens the directory and the sockets to them.
const systemDirectory = "/run/softrdma/fabric"

// Directory is where this user's fabrics have their sockets: $SOFTRDMA_FABRIC_DIR, else
// /run/softrdma/fabric for root, and $XDG_RUNTIME_DIR/softrdma/fabric or
// /tmp/softrdma-fabric-UID for other users.
func Directory() string { return rundir.Path("SOFTRDMA_FABRIC_DIR", "fabric") }

// directories are where a program looks for a fabric.
func directories() []string {
	own := Directory()
	if own == systemDirectory || os.Getenv("SOFTRDMA_FABRIC_DIR") != "" {
		return []string{own}
	}
	return []string{own, systemDirectory}
}

// A Socket is where a fabric answers, unless it has ended.
type Socket struct {
	Name, Path string
}

// Sockets returns the sockets of the fabrics that programs of this user find.
func Sockets() (all []Socket, err error) {
	for _, dir := range directories() {
		entries, e := os.ReadDir(dir)
		if e != nil && !errors.Is(e, fs.ErrNotExist) && !notOurs(dir, e) {
			err = errors.Join(err, e)
		}
		for _, e := range entries {
			known := slices.ContainsFunc(all, func(s Socket) bool { return s.Name == e.Name() })
			if e.Type() == fs.ModeSocket && !known && CheckName(e.Name()) == nil {
				all = append(all, Socket{e.Name(), filepath.Join(dir, e.Name())})
			}
		}
	}
	return all, err
}

// notOurs reports whether an error means that root's fabrics are not open to this user.
func notOurs(dir string, err error) bool {
	return dir == systemDirectory && errors.Is(err, fs.ErrPermission) && os.Geteuid() != 0
}

// maxName keeps the path of the socket below the 108 bytes of sun_path.
const maxName = 32

// CheckName refuses what cannot be the name of a fabric.
func CheckName(name string) error {
	ok := name != "" && len(name) <= maxName && name[0] != '.'
	for _, c := range name {
		ok = ok && (c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("._-", c))
	}
	if !ok {
		return fmt.Errorf("name of a fabric: expected up to %d letters, digits, '.', '_' and '-'; found %q", maxName, name)
	}
	return nil
}

// An Address names a port of a fabric.
type Address struct {
	Fabric string // its name; of one on another host with "@" and the host
	Node   string // or the IP address of a host of an Ethernet
	Port   uint8
}

// ParseAddress reads NAME/NODE or NAME/NODE:PORT. The port is 1 if there is none. The name may have
// @HOST or @HOST:UDPPORT behind it. NODE may be an IP address, without a port.
func ParseAddress(text string) (Address, error) {
	name, node, ok := strings.Cut(text, "/")
	a := Address{Fabric: name, Node: node, Port: 1}
	if _, err := netip.ParseAddr(node); err == nil {
		// The only port that has the address.
	} else if at := strings.LastIndexByte(node, ':'); at >= 0 {
		n, err := strconv.ParseUint(node[at+1:], 10, 8)
		if err != nil || n == 0 {
			return a, badAddress(text)
		}
		a.Node, a.Port = node[:at], uint8(n)
	}
	if !ok || a.Node == "" || !isPlace(name) {
		return a, badAddress(text)
	}
	return a, nil
}

// remote reports whether the fabric is on another host.
func (a Address) remote() bool { return strings.Contains(a.Fabric, "@") }

// isPlace reports whether a text is the name of a fabric, perhaps with the host where it runs.
func isPlace(text string) bool {
	name, host, remote := strings.Cut(text, "@")
	return CheckName(name) == nil && (!remote || host != "")
}

func badAddress(text string) error {
	return &reason.Error{
		Detail: reason.Detail{Reason: reason.FabricAddress, Expected: 1},
		Text:   fmt.Sprintf("port of a fabric: expected NAME/NODE or NAME/NODE:PORT, with NAME@HOST:UDPPORT for a fabric on another host; found %q", text),
	}
}

// String returns NAME/NODE:PORT, or NAME/ADDRESS.
func (a Address) String() string {
	if _, err := netip.ParseAddr(a.Node); err == nil {
		return a.Fabric + "/" + a.Node
	}
	return fmt.Sprintf("%s/%s:%d", a.Fabric, a.Node, a.Port)
}
