package devices

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"softrdma/cmd/softrdma/internal/clitest"
	"softrdma/internal/testenv"
	"softrdma/verbs"
)

func TestDevicesListsWhatOpenTakes(t *testing.T) {
	list, err := verbs.Devices()
	if err != nil {
		t.Fatal(err)
	}
	if len(list) == 0 {
		testenv.Lacks(t, "an address")
	}
	table, verbose := clitest.Run(t, "devices"), clitest.Run(t, "devices", "-v")
	for i := range list {
		d := &list[i]
		if !strings.Contains(table, " "+d.Interface+" ") || !strings.Contains(table, " "+d.Addr.String()+" ") {
			t.Errorf("%v is not in\n%s", d.Addr, table)
		}
		for _, want := range []string{
			d.Addr.String() + " on " + d.Interface, "node_guid:", d.GUID.String(), d.GID.String() + ", RoCE v2, " + d.Interface,
			"max_qp_rd_atom:", "65536", "active_mtu:", "PORT_ACTIVE", "active_speed:",
		} {
			if !strings.Contains(verbose, want) {
				t.Errorf("%q is not in\n%s", want, verbose)
			}
		}
		if d.Best != (i == 0 && strings.Contains(table, "\n*  "+d.Interface)) {
			t.Errorf("%v is best: %v, in\n%s", d.Addr, d.Best, table)
		}
		for _, why := range d.Why {
			if !strings.Contains(verbose, why) {
				t.Errorf("%q is not in\n%s", why, verbose)
			}
		}
	}
}

// DeviceInfo and the open device have the same attributes.
func TestDevicesMatchesOpenDevice(t *testing.T) {
	t.Setenv("SOFTRDMA_FABRIC_DIR", t.TempDir()) // a fabric's ports are no addresses
	var records []record
	if err := json.Unmarshal([]byte(clitest.Run(t, "devices", "--json")), &records); err != nil {
		t.Fatal(err)
	}
	list, err := verbs.Devices()
	if err != nil {
		t.Fatal(err)
	}
	if len(records) != len(list) {
		t.Fatalf("%d devices, expected %d", len(records), len(list))
	}
	opened := 0
	for i := range list {
		info := &list[i]
		if !info.Up || info.ActiveMTU == 0 {
			continue
		}
		dev, err := verbs.Open(info.Addr.String(), verbs.Config{})
		if err != nil {
			t.Logf("%v is taken by others: %v", info.Addr, err)
			continue
		}
		opened++
		if dev.Query() != info.Query() || !reflect.DeepEqual(dev.QueryPort(), info.QueryPort()) || !slices.Equal(dev.GIDs(), info.GIDs()) {
			t.Errorf("%v: open %+v %+v %+v, before %+v %+v %+v", info.Addr,
				dev.Query(), dev.QueryPort(), dev.GIDs(), info.Query(), info.QueryPort(), info.GIDs())
		}
		r := &records[i]
		if r.Address != info.Addr.String() || r.GUID != dev.Query().NodeGUID.String() || r.ActiveMTU != dev.QueryPort().ActiveMTU ||
			r.GIDs[0].GID != dev.GID().String() || r.Limits.MaxQPWR != dev.Query().MaxQPWR || r.Best != (i == 0 && info.Best) {
			t.Errorf("%v: %+v", info.Addr, r)
		}
		dev.Close()
	}
	if opened == 0 {
		testenv.Lacks(t, "an address that is not taken by another device")
	}
}
