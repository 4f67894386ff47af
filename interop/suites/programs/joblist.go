//go:build interop && linux

package main

import (
	"fmt"
	"strings"
)

// A way is a library of MPI or OpenSHMEM with what carries its messages.
type way struct {
	launcher launcher
	pkg      string
	over     string
	options  string // of the launcher
	env      []string
	fabric   bool
	apart    bool // on two hosts only
	why      string
}

const (
	// oneSided is the component of one-sided access that works beside mtl ofi. The one that Open MPI
	// takes by itself fails with libfabric's tcp as well.
	oneSided = "--mca osc pt2pt"

	noLocal = "MPIR_CVAR_NOLOCAL=1"
)

func ways() []way {
	return []way{
		overUCX("rc_verbs", "rc_v"),
		overUCX("ud_verbs", "ud_v"),
		{pkg: "openmpi-bin", over: "Open MPI, mtl ofi, verbs;ofi_rxm", options: "--mca pml cm --mca mtl ofi --mca mtl_ofi_provider_include verbs;ofi_rxm " + oneSided,
			env: []string{"FI_PROVIDER=verbs;ofi_rxm"}, apart: true, why: "osc pt2pt: the default fails on libfabric's tcp, too"},
		{pkg: "openmpi-bin", over: "Open MPI, btl openib", options: "--mca pml ob1 --mca btl openib,self --mca osc pt2pt --mca btl_openib_allow_ib 1 --mca btl_openib_warn_no_device_params_found 0",
			fabric: true, why: "on a fabric: Debian's build connects by InfiniBand's udcm alone. osc pt2pt: osc rdma has windows of one host in shared memory"},
		{launcher: mpich, pkg: "mpich", over: "MPICH, UCX, rc_verbs", env: []string{"UCX_TLS=rc_v,self", noLocal}, why: "NOLOCAL: ranks of one host would use their memory"},
		{launcher: mpich, pkg: "mpich", over: "MPICH, UCX, ud_verbs", env: []string{"UCX_TLS=ud_v,self", noLocal}},
	}
}

// overUCX returns Open MPI on UCX with nothing but transports of verbs and what stays within a process.
func overUCX(name, transports string) way {
	return way{pkg: "openmpi-bin", over: "Open MPI, pml ucx, " + name, options: "--mca pml ucx --mca osc ucx", env: []string{"UCX_TLS=" + transports + ",self"}}
}

// jobs returns the programs of several ranks.
func jobs() []program {
	var all []program
	for _, w := range ways() {
		for _, n := range []int{2, 4} {
			all = append(all, w.exchange(n)...)
		}
		all = append(all, w.netpipe()...)
	}
	return append(append(all, psm()...), gloo()...)
}

// exchange returns a program that compares all that it receives: messages between all pairs,
// collective operations and windows, up to 1 MiB.
func (w *way) exchange(ranks int) []program {
	compiler, pkg := "mpicc.openmpi", "libopenmpi-dev"
	if w.launcher == mpich {
		compiler, pkg = "mpicc.mpich", "libmpich-dev"
	}
	binary := programFile + strings.TrimPrefix(compiler, "mpicc")
	var all []program
	for _, p := range w.places(job{ranks: ranks, argv: []string{binary}, payload: exchangePayload}) {
		p.want = fmt.Sprintf("%d ranks exchanged", ranks)
		all = append(all, p.compiled(compiler, pkg, exchangeSource, binary))
	}
	return all
}

// netpipe returns NetPIPE, with which two ranks send each other messages of growing size.
func (w *way) netpipe() []program {
	argv, pkg := "NPopenmpi -u 1048576 -n 4 -o FOLDER/np.out", "netpipe-openmpi"
	if w.launcher == mpich {
		argv, pkg = "NPmpich2 -u 1048576 -n 4 -o FOLDER/np.out", "netpipe-mpich2"
	}
	var all []program
	for _, p := range w.places(job{ranks: 2, argv: strings.Fields(argv), payload: netpipePayload}) {
		p.want = "1048576 bytes"
		all = append(all, p.needing(p.job.argv[0], pkg))
	}
	return all
}

// places returns a program for each place of a job.
func (w *way) places(j job) []program {
	var all []program
	for _, apart := range []bool{false, true} {
		if w.apart && !apart {
			continue
		}
		place := j
		place.launcher, place.over, place.options = w.launcher, w.over, strings.Fields(w.options)
		place.apart, place.fabric = apart, w.fabric
		p := program{pkg: w.pkg, job: &place, env: w.env, why: w.why}
		p.client = place.command("", nil)
		all = append(all, p)
	}
	return all
}

// psm returns the libraries of PSM, which use other devices than those of verbs.
func psm() []program {
	var all []program
	for _, x := range []struct{ mtl, words, why string }{
		{"psm", "PML cm cannot be selected", "drives /dev/ipath of QLogic adapters, not verbs"},
		{"psm2", "PML cm cannot be selected", "drives /dev/hfi1 of Omni-Path adapters, not verbs; psm3, which has verbs, is not in Debian's libfabric"},
	} {
		w := way{pkg: "openmpi-bin", over: "Open MPI, mtl " + x.mtl, options: "--mca pml cm --mca mtl " + x.mtl}
		all = append(all, w.exchange(2)[0].refusal(x.words, x.why))
	}
	return all
}
