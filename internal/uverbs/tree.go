//go:build linux

package uverbs

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// writeTree writes what libraries and programs read below /sys about the
// device, and the numbers of its device files.
func (d *device) writeTree(root string) error {
	files := map[string]string{
		"sys/class/infiniband_verbs/abi_version": "6",
	}
	for name, k := range d.kinds {
		files["dev/infiniband/"+name] = devNumber(k.rdev)
	}
	files["sys/class/misc/rdma_cm/abi_version"] = "4"
	files["sys/class/misc/rdma_cm/dev"] = devNumber(d.kinds["rdma_cm"].rdev)
	uverbs := "sys/class/infiniband_verbs/uverbs0/"
	files[uverbs+"ibdev"] = deviceName
	files[uverbs+"dev"] = devNumber(d.kinds["uverbs0"].rdev)
	files[uverbs+"abi_version"] = "1"
	q, guid := d.verbs.Query(), ""
	guid = q.NodeGUID.String()
	ib := "sys/class/infiniband/" + deviceName + "/"
	files[ib+"node_type"] = "1: CA"
	files[ib+"node_guid"] = guid
	files[ib+"sys_image_guid"] = guid
	files[ib+"node_desc"] = "softrdma"
	files[ib+"fw_ver"] = "0.0.0"
	files[ib+"device/net/"+d.verbs.Name()+"/device"] = deviceName // the name of the directory is what is read
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
	files[port+"pkeys/0"] = "0xffff"
	for i, g := range d.verbs.GIDs() {
		files[fmt.Sprint(port, "gids/", i)] = gidText(g.GID)
		files[fmt.Sprint(port, "gid_attrs/types/", i)] = g.Type
		files[fmt.Sprint(port, "gid_attrs/ndevs/", i)] = g.Interface
	}
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(text+"\n"), 0o644); err != nil {
			return err
		}
	}
	return nil
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
