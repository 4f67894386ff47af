package explain

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

// The lines are those of other programs and of Linux, as people report them.
func TestLookupUnderstandsLinesOfPrograms(t *testing.T) {
	for line, want := range map[string]string{
		" Failed status 12: wr_id 0 syndrom 0x81":                                                  "VENDOR_ERR_0x81, IBV_WC_RETRY_EXC_ERR",
		"Completion with error at client Failed status 4: wr_id 0 syndrom 0x51 scnt=828, ccnt=700": "VENDOR_ERR_0x51, IBV_WC_LOC_PROT_ERR",
		"syndrom 0x81": "VENDOR_ERR_0x81",
		"NET/IB: Got completion from peer 192.168.3.5<53908> with status=12 opcode=129 len=1048576 vendor err 129 (Recv)": "VENDOR_ERR_0x81, IBV_WC_RETRY_EXC_ERR",
		"NET/IB : Got completion from peer 10.0.0.1<4711> with error 12, opcode 0, len 0, vendor err 129":                 "VENDOR_ERR_0x81, IBV_WC_RETRY_EXC_ERR",
		"nvme nvme0: RECV for CQE 0x00000000a1b2 failed with status transport retry counter exceeded (12)":                "IBV_WC_RETRY_EXC_ERR",
		"rpcrdma: connection to 10.0.0.1:20049 closed: local protection error (4/0x53)":                                   "IBV_WC_LOC_PROT_ERR, VENDOR_ERR_0x53",
		"Transport retry count exceeded on mlx5_0:1/RoCE (synd 0x15 vend 0x81 hw_synd 0/0)":                               "IBV_WC_RETRY_EXC_ERR, VENDOR_ERR_0x81",
		"ib0: failed send event (status=12, wrid=5 vend_err 129)":                                                         "VENDOR_ERR_0x81, IBV_WC_RETRY_EXC_ERR",
		"cma event RDMA_CM_EVENT_REJECTED, error 28":                                                                      "RDMA_CM_EVENT_REJECTED, CONSUMER_REJECT",
		"cma event RDMA_CM_EVENT_ADDR_ERROR, error -19":                                                                   "RDMA_CM_EVENT_ADDR_ERROR, ENODEV",
		"PyverbsRDMAError: Completion status is Retry exceeded":                                                           "IBV_WC_RETRY_EXC_ERR",
		"PyverbsRDMAError: Completion status is RNR retry exceeded":                                                       "IBV_WC_RNR_RETRY_EXC_ERR",
		"Unexpected CM event bl blka 8":                                                                                   "RDMA_CM_EVENT_REJECTED, unexpected CM event",
		"Unexpected CM event 1":                                                                                           "RDMA_CM_EVENT_ADDR_ERROR, unexpected CM event",
		"rdma_resolve_addr failed, ret = -110":                                                                            "rdma_resolve_addr ETIMEDOUT",
		"Unable to open the device: errno 19":                                                                             "ENODEV",
		"got IBV_WC_RNR_RETRY_EXC_ERR from the send queue":                                                                "IBV_WC_RNR_RETRY_EXC_ERR",
		"The InfiniBand retry count between two MPI processes has been exceeded":                                          "IBV_WC_RETRY_EXC_ERR",
		"NAK with syndrome 0x62":                                                                                          "NAK_REMOTE_ACCESS_ERROR",
		"Failed status-transport retry counter exceeded (12): wr_id 0 syndrom 0x81":                                       "VENDOR_ERR_0x81, IBV_WC_RETRY_EXC_ERR",
		"NCCL WARN NET/IB: Got completion from peer 10.153.235.13<40554> with status=IBV_WC_RETRY_EXC_ERR(12) opcode=IBV_WC_RECV_RDMA_WITH_IMM(129) vendor_err=129": "IBV_WC_RETRY_EXC_ERR, IBV_WC_RECV_RDMA_WITH_IMM, VENDOR_ERR_0x81",
		"NET/IB: ibp198s0f0:1 async fatal event on QP: local access violation work queue error":                                                                     "IBV_EVENT_QP_ACCESS_ERR",
		"NCCL WARN Call to ibv_reg_mr failed with error Cannot allocate memory":                                                                                     "ibv_reg_mr ENOMEM",
		"NCCL WARN Call to ibv_modify_qp failed with 110 Connection timed out, on dev mlx5_0:1":                                                                     "ibv_modify_qp ETIMEDOUT",
		"ib_md.c:1234 UCX  ERROR ibv_reg_mr(address=0x7f, length=4096, access=0xf) failed: Bad address":                                                             "ibv_reg_mr EFAULT",
		"ibv_create_qp EINVAL": "ibv_create_qp EINVAL",
		"UCX  WARN  network device 'mlx5_7:1' is not available, please use one or more of: 'eth0'(tcp)": "network device is not available",
		"libibverbs: Warning: RLIMIT_MEMLOCK is 65536 bytes.":                                           "locked memory limit",
		"Couldn't connect to 10.0.0.1:18515":                                                            "couldn't connect",
		"WARNING: There was an error initializing an OpenFabrics device.":                               "Open MPI's openib",
	} {
		found, err := Lookup(line)
		if err != nil {
			t.Errorf("%q: %v", line, err)
			continue
		}
		var names []string
		for _, e := range found {
			if e.Kind != Reason { // its number changes with versions
				names = append(names, e.Name)
			}
			if e.Meaning == "" || e.String() == "" {
				t.Errorf("%s has no meaning", e.Name)
			}
		}
		if !sameNames(names, strings.Split(want, ", ")) {
			t.Errorf("%q finds %v, expected %s", line, names, want)
		}
	}
}

func sameNames(a, b []string) bool {
	set := map[string]bool{}
	for _, n := range a {
		set[n] = true
	}
	for _, n := range b {
		if !set[n] {
			return false
		}
	}
	return len(a) == len(b)
}

func TestLookupOfALineWithoutMeaningIsAMiss(t *testing.T) {
	for _, line := range []string{"status 0 zzz qqq", "error 99999999999999999999 zzz", "syndrome 0xffffffffffff zzz", "zzz qqq yyy xxx www"} {
		if found, err := Lookup(line); !errors.As(err, new(*NotFoundError)) {
			t.Errorf("%q finds %v, %v, expected a miss", line, found, err)
		}
	}
}

func TestLookupKnowsWhatProgramsPrintForReasons(t *testing.T) {
	for line, want := range map[string]string{
		"No IB devices found":        "PROVIDERS_MISSING",
		"Failed to modify QP to RTR": "GID_INDEX",
		"Failed to create AH":        "GID_INDEX",
	} {
		if found, err := Lookup(line); err != nil || found[0].Name != want && !slices.Contains(found[0].See, want) {
			t.Errorf("%q finds %v, %v, expected %s", line, found, err, want)
		}
	}
}
