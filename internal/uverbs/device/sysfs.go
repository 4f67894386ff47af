//go:build linux

package device

import (
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"softrdma/verbs"
)

// AddSysfs adds the files of a device, with their present contents.
func (d *Device) AddSysfs(files map[string]string) {
	uverbs := "sys/class/infiniband_verbs/" + d.FileName() + "/"
	files[uverbs+"ibdev"] = d.Name
	files[uverbs+"dev"] = FormatNumber(d.DeviceNumber())
	files[uverbs+"abi_version"] = "1"
	q := d.Verbs.Query()
	ib := "sys/class/infiniband/" + d.Name + "/"
	files[ib+"node_type"] = "1: CA"
	if d.Adapter.IWARP() {
		files[ib+"node_type"] = "4: RNIC"
	}
	files[ib+"node_guid"] = q.NodeGUID.String()
	files[ib+"sys_image_guid"] = q.SysImageGUID.String()
	files[ib+"fw_ver"] = "0.0.0"
	// node_exporter up to 1.5 finds no device without these.
	files[ib+"board_id"], files[ib+"hca_type"] = "softrdma", "softrdma"
	port := ib + "ports/1/"
	if d.Fabric != nil {
		i := d.Fabric.Info()
		files[ib+"node_desc"] = i.Description
		addFabricPort(i, port, files)
		return
	}
	files[ib+"node_desc"] = "softrdma"
	if !d.Adapter.IWARP() {
		files[ib+"parent"] = d.Verbs.Name() // as Linux's rxe has it
	}
	files[ib+"device/net/"+d.Verbs.Name()+"/device"] = d.Name // the name of the directory is what is read
	d.addEthernetPort(port, files)
}

// addEthernetPort adds the files of the port of a RoCE or iWARP device.
func (d *Device) addEthernetPort(port string, files map[string]string) {
	files[port+"link_layer"] = "Ethernet"
	files[port+"state"], files[port+"phys_state"] = "1: DOWN", "3: Disabled"
	if d.Verbs.QueryPort().Active {
		files[port+"state"], files[port+"phys_state"] = "4: ACTIVE", "5: LinkUp"
	}
	files[port+"rate"] = d.rate().String()
	for _, name := range []string{"lid", "sm_lid"} {
		files[port+name] = "0x0"
	}
	files[port+"sm_sl"], files[port+"lid_mask_count"], files[port+"cap_mask"] = "0", "0", "0x00010000"
	rows := gidTableLen
	if d.Adapter.IWARP() {
		rows = 1
	} else {
		files[port+"pkeys/0"] = "0xffff"
	}
	gids := d.Verbs.GIDs()
	for i := range rows {
		gid, kind := [16]byte{}, "IB/RoCE v1" // as libraries read an empty entry, and an entry of Linux's siw
		if i < len(gids) {
			gid = gids[i].GID
			if d.Verbs.Protocol() == verbs.RoCE {
				kind = gids[i].Type
			}
			files[fmt.Sprint(port, "gid_attrs/ndevs/", i)] = gids[i].Interface
		}
		files[fmt.Sprint(port, "gids/", i)], files[fmt.Sprint(port, "gid_attrs/types/", i)] = gidText(gid), kind
	}
}

func FormatNumber(rdev uint64) string {
	return fmt.Sprintf("%d:%d", unix.Major(rdev), unix.Minor(rdev))
}

// gidText prints a GID as sysfs does: eight groups of four digits.
func gidText(g [16]byte) string {
	var parts []string
	for i := 0; i < len(g); i += 2 {
		parts = append(parts, fmt.Sprintf("%02x%02x", g[i], g[i+1]))
	}
	return strings.Join(parts, ":")
}
