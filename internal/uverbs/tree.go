//go:build linux

package uverbs

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// The numbers of the device file of connection management, one of the misc
// devices.
var cmRdev = unix.Mkdev(10, 59)

// cmABI is the version of its interface.
const cmABI = 4

// writeTree writes what libraries and programs read below /sys about the
// devices, and the numbers of their device files.
func (s *Server) writeTree() error {
	files := map[string]string{
		"sys/class/infiniband_verbs/abi_version": "6",
		"sys/class/misc/rdma_cm/abi_version":     strconv.Itoa(cmABI),
		"sys/class/misc/rdma_cm/dev":             devNumber(cmRdev),
	}
	for name, k := range s.kinds {
		files["dev/infiniband/"+name] = devNumber(k.rdev)
	}
	for _, d := range s.devices {
		d.describe(files)
	}
	for name, text := range files {
		path := filepath.Join(s.Tree(), name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(text+"\n"), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// describe adds the files of a device.
func (d *device) describe(files map[string]string) {
	uverbs := "sys/class/infiniband_verbs/" + d.file() + "/"
	files[uverbs+"ibdev"] = d.name
	files[uverbs+"dev"] = devNumber(d.rdev())
	files[uverbs+"abi_version"] = "1"
	q := d.verbs.Query()
	ib := "sys/class/infiniband/" + d.name + "/"
	files[ib+"node_type"] = "1: CA"
	if d.a.IWARP() {
		files[ib+"node_type"] = "4: RNIC"
	}
	files[ib+"node_guid"] = q.NodeGUID.String()
	files[ib+"sys_image_guid"] = q.SysImageGUID.String()
	files[ib+"node_desc"] = "softrdma"
	files[ib+"fw_ver"] = "0.0.0"
	files[ib+"device/net/"+d.verbs.Name()+"/device"] = d.name // the name of the directory is what is read
	port := ib + "ports/1/"
	files[port+"link_layer"] = "Ethernet"
	files[port+"state"], files[port+"phys_state"] = "1: DOWN", "3: Disabled"
	if d.verbs.QueryPort().Active {
		files[port+"state"], files[port+"phys_state"] = "4: ACTIVE", "5: LinkUp"
	}
	files[port+"rate"] = "2.5 Gb/sec (1X SDR)"
	for _, name := range []string{"lid", "sm_lid"} {
		files[port+name] = "0x0"
	}
	files[port+"sm_sl"], files[port+"lid_mask_count"], files[port+"cap_mask"] = "0", "0", "0x00010000"
	rows := gidTableLen
	if d.a.IWARP() {
		rows = 1
	} else {
		files[port+"pkeys/0"] = "0xffff"
	}
	gids := d.verbs.GIDs()
	for i := range rows {
		gid, kind := [16]byte{}, "IB/RoCE v1" // what libraries take an empty entry for, and Linux iWARP's
		if i < len(gids) {
			gid = gids[i].GID
			if !d.a.IWARP() {
				kind = gids[i].Type
			}
			files[fmt.Sprint(port, "gid_attrs/ndevs/", i)] = gids[i].Interface
		}
		files[fmt.Sprint(port, "gids/", i)], files[fmt.Sprint(port, "gid_attrs/types/", i)] = gidText(gid), kind
	}
}

func devNumber(rdev uint64) string { return fmt.Sprintf("%d:%d", unix.Major(rdev), unix.Minor(rdev)) }

// gidText prints a GID as sysfs does: eight groups of four digits.
func gidText(g [16]byte) string {
	var parts []string
	for i := 0; i < len(g); i += 2 {
		parts = append(parts, fmt.Sprintf("%02x%02x", g[i], g[i+1]))
	}
	return strings.Join(parts, ":")
}
