//go:build interop && linux

package main

import "strings"

// skipReasons maps the beginning of a skip message of the suite to the reason for the skip.
var skipReasons = []struct{ words, why string }{
	{"Can not run the test over non EFA", "for another adapter"},
	{"Can not run the test over non MLX5", "for another adapter"},
	{"Could not open mlx5 context", "for another adapter"},
	{"MLX5", "for another adapter"},
	{"Not supported on non EFA", "for another adapter"},
	{"PCI device must be passed", "for another adapter"},
	{"cuda-python", "needs a GPU"},
	{"Allocating dmabuf", "needs a GPU"},
	{"There are no huge pages", "the machine has none"},
	{"ODP is not supported", "paging on demand, which iWARP's provider does not have"},
	{"Advise MR", "the rxe provider of this rdma-core has no ibv_advise_mr"},
	{"Device memory", "the device has no memory of its own"},
	{"Extended CQ", "with tag matching, which the rxe provider lacks"},
	{"Create Extended CQ", "with time stamps, which the rxe provider lacks"},
	{"Create QP type 8", "raw packets"},
	{"Create Raw Packet QP", "raw packets"},
	{"Create XRCD", "XRC, which the rxe provider lacks"},
	{"XRC", "XRC, which the rxe provider lacks"},
	{"Rereg MR", "the rxe provider has no ibv_rereg_mr"},
	{"Parent Domain", "the rxe provider lacks it"},
	{"Importing a device", "the rxe provider lacks it"},
	{"Query device real time", "the device has no clock"},
	{"Must be run", "needs a right that the run does not have"},
}

// skipped returns the reason for a skip of the suite.
func skipped(words string) string {
	for _, r := range skipReasons {
		if strings.HasPrefix(words, r.words) {
			return r.why
		}
	}
	return ""
}
