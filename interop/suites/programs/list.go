//go:build interop && linux

package main

import (
	"slices"
	"strings"
)

// list returns all programs, grouped by package.
func list() []program {
	return slices.Concat(ibverbsUtils(), rdmacmUtils(), perftest(), ucx(), jobs(), suites(), others(), storage(), migrations(), sockets(), iwarp(), memory())
}

// memory returns the programs whose two ends, on a device each, reach each other through shared
// memory.
func memory() []program {
	all := []program{
		both("ibverbs-utils", "ibv_rc_pingpong -g 0 -c", "1000 iters"),
		both("ibverbs-utils", "ibv_ud_pingpong -g 0 -c", "1000 iters"),
		pair("rdmacm-utils", "rping -s -a SERVER -C 100 -V", "rping -c -a SERVER -C 100 -V -v", "rdma-ping-99"),
		pair("rdmacm-utils", "udaddy -b SERVER", "udaddy -s SERVER", "return status 0"),
		pair("rdmacm-utils", "ucmatose -b SERVER -c 10", "ucmatose -s SERVER -c 10", "return status 0"),
		pair("rdmacm-utils", "rstream -b SERVER -S 4096 -C 50 -T v", "rstream -s SERVER -S 4096 -C 50 -T v", "custom"),
	}
	for _, line := range []string{"ib_write_bw", "ib_write_bw -a -n 5", "ib_write_bw -q 4 -b", "ib_read_bw", "ib_read_bw -R", "ib_send_bw -c UD", "ib_atomic_bw"} {
		all = append(all, perftestPair(line, "MsgRate"))
	}
	for _, line := range []string{"ib_send_lat", "ib_send_lat -e -R", "ib_write_lat", "ib_read_lat"} {
		all = append(all, perftestPair(line, "t_typical"))
	}
	for i := range all {
		all[i].memory = true
	}
	return all
}

// iwarp returns the programs for an iWARP device. They connect with librdmacm (perftest's -R) and
// use only reliable connections.
func iwarp() []program {
	const verbs, rdmacm = "ibverbs-utils", "rdmacm-utils"
	all := []program{
		alone(verbs, "ibv_devices", "siw0"),
		alone(verbs, "ibv_devinfo -v", "iWARP (1)"),
		both(verbs, "ibv_rc_pingpong -g 0", "").refusal("Failed to modify QP to RTR", "iWARP connects by librdmacm alone"),
		pair(rdmacm, "rping -s -a SERVER -C 100 -V", "rping -c -a SERVER -C 100 -V -v", "rdma-ping-99"),
		pair(rdmacm, "rdma_server", "rdma_client -s SERVER", "end 0"),
		pair(rdmacm, "ucmatose -b SERVER -c 10", "ucmatose -s SERVER -c 10", "return status 0"),
		pair(rdmacm, "cmtime -b SERVER", "cmtime -s SERVER", "destroy").serves(),
		pair(rdmacm, "rstream -b SERVER -S 4096 -C 50 -T v", "rstream -s SERVER -S 4096 -C 50 -T v", "custom"),
		pair(rdmacm, "riostream -b SERVER -S 4096 -C 10 -I 20 -T v", "riostream -s SERVER -S 4096 -C 10 -I 20 -T v", "custom"),
		pair(rdmacm, "rcopy", "rcopy /etc/services SERVER:FOLDER/services-iwarp", "Gb/sec").serves(),
		pair(rdmacm, "udaddy -b SERVER", "udaddy -s SERVER", "").refusal("bind address failed", "datagrams, which iWARP does not have"),
	}
	for _, line := range []string{
		"ib_write_bw -R", "ib_write_bw -R -a -n 5", "ib_write_bw -R -q 4", "ib_write_bw -R -b", "ib_read_bw -R", "ib_read_bw -R -a -n 5", "ib_read_bw -R -e",
		"ib_send_bw -R", "ib_send_bw -R -a -n 5", "ib_send_bw -R -e", "ib_send_bw -R -b", "ib_send_bw -R --use-srq",
	} {
		all = append(all, perftestPair(line, "MsgRate"))
	}
	for _, line := range []string{"ib_write_lat -R", "ib_read_lat -R", "ib_read_lat -R -e", "ib_send_lat -R", "ib_send_lat -R -e", "ib_send_lat -R -I 64 -s 8"} {
		all = append(all, perftestPair(line, "t_typical"))
	}
	all = append(all,
		perftestPair("ib_write_bw", "").refusal("to RTR", "iWARP connects by librdmacm alone"),
		perftestPair("ib_atomic_bw -R", "").refusal("Couldn't post send", "siw's driver has no atomics"),
		alone("iproute2", "rdma link", "siw0/1 state ACTIVE"))
	for i := range all {
		all[i].iwarp = true
	}
	return all
}

func ibverbsUtils() []program {
	const pkg = "ibverbs-utils"
	return []program{
		alone(pkg, "ibv_devices", "rxe0"),
		alone(pkg, "ibv_devinfo -v", "PORT_ACTIVE (4)"),
		alone(pkg, interrupting+"ibv_asyncwatch", "rxe0: async event FD").ended().because("waits for events until it is ended"),
		both(pkg, "ibv_rc_pingpong -g 0 -c", "1000 iters"),
		both(pkg, "ibv_rc_pingpong -g 0 -e", "1000 iters"),
		both(pkg, "ibv_rc_pingpong -g 0 -N", "1000 iters"),
		both(pkg, "ibv_uc_pingpong -g 0", "1000 iters"),
		both(pkg, "ibv_ud_pingpong -g 0", "1000 iters"),
		both(pkg, "ibv_srq_pingpong -g 0", "1000 iters"),
		both(pkg, "ibv_xsrq_pingpong -g 0", "").refusal("Couldn't Open the XRC Domain", "XRC, which the rxe provider refuses"),
	}
}

func rdmacmUtils() []program {
	const pkg = "rdmacm-utils"
	return []program{
		pair(pkg, "rping -s -a SERVER -C 100 -V", "rping -c -a SERVER -C 100 -V -v", "rdma-ping-99"),
		pair(pkg, "rdma_server", "rdma_client -s SERVER", "end 0"),
		pair(pkg, "rdma_xserver -c r", "rdma_xclient -s SERVER -c r", "end 0").serves(),
		pair(pkg, "rdma_xserver -c x", "rdma_xclient -s SERVER -c x", "").refusal("rdma_create_ep: Invalid argument", "XRC"),
		pair(pkg, "ucmatose -b SERVER -c 10", "ucmatose -s SERVER -c 10", "return status 0"),
		pair(pkg, "udaddy -b SERVER", "udaddy -s SERVER", "return status 0"),
		pair(pkg, "mckey -b SERVER -m 239.7.7.7", "mckey -b CLIENT -m 239.7.7.7 -s", "return status 0").onTwoHosts(),
		pair(pkg, "cmtime -b SERVER", "cmtime -s SERVER", "destroy").serves(),
		pair(pkg, "rstream -b SERVER -S 4096 -C 50 -T v", "rstream -s SERVER -S 4096 -C 50 -T v", "custom"),
		pair(pkg, "riostream -b SERVER -S 4096 -C 10 -I 20 -T v", "riostream -s SERVER -S 4096 -C 10 -I 20 -T v", "custom"),
		pair(pkg, "rcopy", "rcopy /etc/services SERVER:FOLDER/services", "Gb/sec").serves(),
		pair(pkg, "udpong -b SERVER", "udpong -s SERVER", "").onTwoHosts().refusal("rconnect:",
			"sends by LIDs, which RoCE does not have; the same on Linux's Soft RoCE"),
	}
}

// messages is the number of messages that perftest and UCX exchange unless a line sets another.
// With programs that poll on few processors the scheduler determines the latency, and the programs'
// own default would take minutes.
const (
	messages = "200"
	warming  = "10"
)

// perftestPair makes the two ends of a perftest program. -F lets it run on processors whose
// frequency varies.
func perftestPair(line, want string) program {
	if !strings.Contains(line, " -n ") && !strings.Contains(line, " -D ") {
		line += " -n " + messages
	}
	return both("perftest", line+" -F", want)
}

func perftest() []program {
	var all []program
	for _, line := range []string{
		"ib_write_bw", "ib_write_bw -a -n 5", "ib_write_bw -b", "ib_write_bw -q 16", "ib_write_bw -R", "ib_write_bw -c UC", "ib_write_bw -I 32 -s 16",
		"ib_write_bw -l 8", "ib_write_bw -m 4096", "ib_write_bw -t 1", "ib_write_bw -b --report-both", "ib_write_bw -D 1", "ib_write_bw --odp",
		"ib_read_bw", "ib_read_bw -a -n 5", "ib_read_bw -b", "ib_read_bw -q 16", "ib_read_bw -R", "ib_read_bw -e", "ib_read_bw -o 4",
		"ib_send_bw", "ib_send_bw -a -n 5", "ib_send_bw -b", "ib_send_bw -q 16", "ib_send_bw -R", "ib_send_bw -e", "ib_send_bw -I 64 -s 32",
		"ib_send_bw -c UC", "ib_send_bw -c UD -s 1024", "ib_send_bw -c UD -b -s 1024", "ib_send_bw --use-srq", "ib_send_bw -q 8 --use-srq",
		"ib_send_bw -c UD -s 1024 -g -M 0:0:0:0:0:0:0:0:0:0:255:255:239:1:1:1",
		"ib_atomic_bw", "ib_atomic_bw -A CMP_AND_SWAP", "ib_atomic_bw -b", "ib_atomic_bw -q 8", "ib_atomic_bw -R",
	} {
		all = append(all, perftestPair(line, "MsgRate"))
	}
	for _, line := range []string{
		"ib_write_lat", "ib_write_lat -a -n 5", "ib_write_lat -I 64 -s 8", "ib_write_lat -c UC", "ib_write_lat -R",
		"ib_read_lat", "ib_read_lat -a -n 5", "ib_read_lat -e", "ib_read_lat -R",
		"ib_send_lat", "ib_send_lat -a -n 5", "ib_send_lat -e", "ib_send_lat -c UC", "ib_send_lat -c UD -s 64", "ib_send_lat -R", "ib_send_lat --use-srq",
		"ib_atomic_lat", "ib_atomic_lat -A CMP_AND_SWAP", "ib_atomic_lat -e", "ib_atomic_lat -R",
	} {
		all = append(all, perftestPair(line, "t_typical"))
	}
	return append(all,
		perftestPair("ib_write_bw -e", "").refusal("Events feature not available on WRITE verb", "perftest has no events for WRITE"),
		perftestPair("ib_send_bw -c XRC", "").refusal("Couldn't create IB resources", "XRC, which the rxe provider refuses"),
		perftestPair("ib_send_bw -c UD -s 1024 -g", "").refusal("Couldn't attach QP to MultiCast group",
			"perftest's own group is IPv6's, on an IPv4 device; -M gives it another"),
		perftestPair("raw_ethernet_bw -B 02:00:00:00:00:01 -E 02:00:00:00:00:02", "").refusal("raw", "raw packets"),
	)
}

func ucx() []program {
	const pkg = "ucx-utils"
	var all []program
	for _, tls := range []string{"rc_v,ud_v,self", "ud_v,self"} {
		for _, test := range []string{"tag_lat", "tag_bw", "tag_sync_lat", "ucp_am_lat", "ucp_am_bw", "stream_bw", "ucp_put_lat", "ucp_put_bw", "ucp_get", "tag_sync_bw", "stream_lat"} {
			all = append(all, pair(pkg, "ucx_perftest", "ucx_perftest SERVER -t "+test+" -s 20000 -n "+messages+" -w "+warming+"", "Final:").with("UCX_TLS="+tls))
		}
		for _, test := range []string{"ucp_add", "ucp_fadd", "ucp_swap", "ucp_cswap"} {
			all = append(all, pair(pkg, "ucx_perftest", "ucx_perftest SERVER -t "+test+" -s 8 -n "+messages+" -w "+warming+"", "Final:").with("UCX_TLS="+tls))
		}
	}
	for _, test := range []string{"am_lat", "am_bw", "put_lat", "put_bw", "fadd", "cswap", "swap", "add_mr"} {
		p := pair(pkg, "ucx_perftest -d rxe0:1 -x rc_verbs", "ucx_perftest SERVER -d rxe0:1 -x rc_verbs -n "+messages+" -w "+warming+" -s 8 -t "+test, "Final:")
		if test == "swap" {
			p = p.refusal("does not support", "UCX says that rc_verbs does not have it")
		}
		all = append(all, p)
	}
	all = append(all, pair(pkg, "ucx_perftest -d rxe0:1 -x rc_verbs", "ucx_perftest SERVER -d rxe0:1 -x rc_verbs -n "+messages+" -w "+warming+" -s 4096 -t get -D zcopy", "Final:"))
	for _, layout := range []string{"short", "bcopy", "zcopy"} {
		all = append(all, pair(pkg, "ucx_perftest -d rxe0:1 -x ud_verbs",
			"ucx_perftest SERVER -d rxe0:1 -x ud_verbs -n "+messages+" -w "+warming+" -t am_bw -D "+layout, "Final:"))
	}
	return append(all, alone(pkg, "ucx_info -d", "Transport: rc_verbs"))
}

// others returns programs of other packages that link libibverbs or librdmacm.
func others() []program {
	const noMAD = "sends subnet management packets from queue pair 0, which RoCE does not have"
	all := []program{
		alone("infiniband-diags", "ibstat rxe0", "State: Active"),
		alone("infiniband-diags", "ibstatus", "4: ACTIVE"),
		alone("infiniband-diags", "ibhosts", "").refusal("can't open MAD port", noMAD),
		alone("iproute2", "rdma dev", "rxe0: node_type ca"),
		alone("iproute2", "rdma link", "rxe0/1 state ACTIVE"),
		alone("iproute2", "rdma res", "rxe0: pd"),
		alone("iproute2", "rdma statistic", "sent_pkts"),
	}
	for _, test := range []string{"rc_bw", "rc_bi_bw", "rc_lat", "rc_rdma_read_bw", "rc_rdma_write_bw", "rc_rdma_write_poll_lat", "rc_compare_swap_mr", "rc_fetch_add_mr", "ver_rc_compare_swap"} {
		all = append(all, pair("qperf", "qperf", "qperf -cm 1 -t 1 SERVER "+test, test+":").serves().because("without -cm 1 it connects by LIDs, which RoCE does not have"))
	}
	// The server has a receive for each SEND: fio sets the RNR retries of its connections to 0.
	const (
		fioServer = "fio --name=server --ioengine=rdma --port=7204 --filename=rdma --rw=read --bs=64k --size=4m --iodepth=64"
		fioClient = "fio --name=client --ioengine=rdma --hostname=SERVER --port=7204 --rw=write --bs=64k --size=4m --iodepth=1"
	)
	for _, verb := range []string{"write", "read", "send"} {
		all = append(all, pair("fio", fioServer, fioClient+" --verb="+verb, "IOPS="))
	}
	all = append(all, pair("fio", fioServer+" --verify=crc32c", fioClient+" --verb=send --verify=crc32c --do_verify=0 --verify_state_save=0", "IOPS=").
		because("the server verifies what it receives"))
	all = append(all, alone("libfabric-bin", "fi_info -p verbs", "FI_EP_DGRAM"))
	for _, kind := range []string{"verbs -e msg", "verbs -e dgram", "verbs;ofi_rxm -e rdm", "verbs;ofi_rxd -e rdm"} {
		line := "fi_pingpong -p " + kind + " -I 20"
		all = append(all, both("libfabric-bin", line, "usec/xfer").onTwoHosts())
	}
	return all
}

// sockets returns programs of TCP under librdmacm's preloaded library, which makes rsockets of their
// sockets. It is loaded after softrdma's.
func sockets() []program {
	const (
		load    = `LD_PRELOAD=$LD_PRELOAD:'/usr/$LIB/rsocket/librspreload.so' exec `
		noEpoll = "waits by epoll, which librspreload.so does not replace"
		config  = "daemon off; master_process off; error_log stderr; pid FOLDER/pid; events {} http { access_log off; server { listen SERVER:8080; } }"
	)
	fetch := script("curl", "curl http://SERVER:8080/", load+"curl -sS --output FOLDER/fetched --write-out 'fetched %{size_download} bytes' http://SERVER:8080/", "fetched 1048576 bytes")
	fetch.server = []string{"sh", "-c", load + serverFile + " SERVER 8080 1048576"}
	return []program{
		fetch.needing("curl", "curl").compiled("gcc", "gcc", serverSource, serverFile).because("the server waits in accept and read"),
		script("nginx-light", "nginx", "echo '"+config+"' > FOLDER/nginx.conf; "+load+"nginx -c FOLDER/nginx.conf", "").refusal("epoll_ctl(1, ", noEpoll).needing("nginx", "nginx-light"),
		script("redis-server", "redis-server", load+"redis-server --port 7000 --bind SERVER --save ''", "").refusal("Unrecoverable error creating", noEpoll).needing("redis-server", "redis-server"),
	}
}
