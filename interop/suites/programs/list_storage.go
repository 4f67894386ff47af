//go:build interop && linux

package main

import "strings"

// target starts tgtd and gives it a disk, to which one initiator has access.
const target = `tgtd -f -C 0 --iser pool_sz_mb=256 --iscsi portal=SERVER:3261 &
trap "kill -9 $!" TERM EXIT
truncate -s 16M FOLDER/disk
until tgtadm -C 0 --lld iser --mode target --op new --tid 1 -T iqn.2026-01.test:disk; do sleep .1; done
tgtadm -C 0 --lld iser --mode logicalunit --op new --tid 1 --lun 1 -b FOLDER/disk
tgtadm -C 0 --lld iser --mode target --op bind --tid 1 -I ALL
tgtadm -C 0 --lld iser --mode target --op bind --tid 1 -Q iqn.2026-01.test:initiator
wait`

// disk are the options that name the initiator and the target's disk.
const disk = "-i iqn.2026-01.test:initiator iser://SERVER:3260/iqn.2026-01.test:disk/1"

// families are tests of iscsi-test-cu that read, write, compare and ask, and that tgtd passes over TCP as well.
const families = "OrWrite Prefetch16 PrinReadKeys Read16 ReadCapacity16 ReportSupportedOpcodes TestUnitReady Verify16 Write16 WriteSame16 WriteVerify16"

// storage returns initiators of SCSI over iSER, with tgtd as the target, on RoCE and on iWARP.
func storage() []program {
	const pkg = "libiscsi-bin"
	var all []program
	for _, p := range []program{
		alone(pkg, "iscsi-inq "+disk, "VIRTUAL-DISK"),
		script(pkg, "iscsi-test-cu --dataloss -t SCSI.FAMILY, FAMILY: "+families,
			"for f in "+families+"; do iscsi-test-cu --dataloss -t SCSI.$f "+disk+" || exit 1; done; echo every family passes", "every family passes"),
	} {
		p.server = []string{"sh", "-c", target}
		p = p.serves().needing("tgtd", "tgt").needing("iscsi-test-cu", pkg).with("TGT_IPC_SOCKET=FOLDER/tgt").because("tgtd is the target")
		all = append(all, p)
		p.iwarp = true
		all = append(all, p)
	}
	return all
}

// migrations returns virtual machines that move to another QEMU, with the guest's memory in RDMA WRITEs. The source
// stops before that, so that the memory of both can be compared; then the guest continues at the destination. Only the
// source has random bytes in it at first: QEMU sends pages of zeros without their content.
func migrations() []program {
	const (
		machine  = "qemu-system-x86_64 -machine pc,accel=tcg -m 64M -display none -nodefaults -monitor stdio"
		random   = " -device loader,file=FOLDER/random,addr=0x1000000,force-raw=on"
		memory   = `echo 'pmemsave 0 0x4000000 "FOLDER/FILE"'; `
		awaiting = `until grep -q "VM status: STATE.\?$" FOLDER/monitor; do sleep .2; echo "info status"; done; `
	)
	var all []program
	for _, pin := range []string{"off", "on"} {
		set := `echo "migrate_set_capability rdma-pin-all ` + pin + `"; `
		p := script("qemu-system-x86", "qemu-system-x86_64 -m 64M, migrate rdma:SERVER:4444, rdma-pin-all "+pin,
			"head -c 16M /dev/urandom >FOLDER/random; ("+set+`echo stop; `+strings.Replace(memory, "FILE", "before", 1)+`echo "migrate rdma:SERVER:4444"; echo "info migrate"; echo quit) | `+
				machine+random, "Migration status: completed")
		p.server = []string{"sh", "-c", ": >FOLDER/monitor; (" + set + `echo "migrate_incoming rdma:SERVER:4444"; ` + strings.Replace(awaiting, "STATE", "paused", 1) +
			strings.Replace(memory, "FILE", "after", 1) + "echo cont; " + strings.Replace(awaiting, "STATE", "running", 1) + `echo quit) | ` + machine + " -incoming defer | tee FOLDER/monitor; cmp FOLDER/before FOLDER/after"}
		all = append(all, p.needing("qemu-system-x86_64", "qemu-system-x86").because("the same memory at both ends, then the guest continues"))
	}
	return all
}
