package explain

import (
	"errors"
	"strings"
	"testing"
)

// The lines are those of other programs and of Linux, as people report them.
func TestLookupUnderstandsLinesOfPrograms(t *testing.T) {
	for line, want := range map[string]string{
		" Failed status 12: wr_id 0 syndrom 0x81":                                                  "VENDOR_ERR_0x81 IBV_WC_RETRY_EXC_ERR",
		"Completion with error at client Failed status 4: wr_id 0 syndrom 0x51 scnt=828, ccnt=700": "VENDOR_ERR_0x51 IBV_WC_LOC_PROT_ERR",
		"syndrom 0x81": "VENDOR_ERR_0x81",
		"NET/IB: Got completion from peer 192.168.3.5<53908> with status=12 opcode=129 len=1048576 vendor err 129 (Recv)": "VENDOR_ERR_0x81 IBV_WC_RETRY_EXC_ERR",
		"NET/IB : Got completion from peer 10.0.0.1<4711> with error 12, opcode 0, len 0, vendor err 129":                 "VENDOR_ERR_0x81 IBV_WC_RETRY_EXC_ERR",
		"nvme nvme0: RECV for CQE 0x00000000a1b2 failed with status transport retry counter exceeded (12)":                "IBV_WC_RETRY_EXC_ERR",
		"rpcrdma: connection to 10.0.0.1:20049 closed: local protection error (4/0x53)":                                   "IBV_WC_LOC_PROT_ERR VENDOR_ERR_0x53",
		"Transport retry count exceeded on mlx5_0:1/RoCE (synd 0x15 vend 0x81 hw_synd 0/0)":                               "IBV_WC_RETRY_EXC_ERR VENDOR_ERR_0x81",
		"ib0: failed send event (status=12, wrid=5 vend_err 129)":                                                         "VENDOR_ERR_0x81 IBV_WC_RETRY_EXC_ERR",
		"cma event RDMA_CM_EVENT_REJECTED, error 28":                                                                      "RDMA_CM_EVENT_REJECTED CONSUMER_REJECT",
		"cma event RDMA_CM_EVENT_ADDR_ERROR, error -19":                                                                   "RDMA_CM_EVENT_ADDR_ERROR ENODEV",
		"rdma_resolve_addr failed, ret = -110":                                                                            "ETIMEDOUT",
		"Unable to open the device: errno 19":                                                                             "ENODEV",
		"got IBV_WC_RNR_RETRY_EXC_ERR from the send queue":                                                                "IBV_WC_RNR_RETRY_EXC_ERR",
		"The InfiniBand retry count between two MPI processes has been exceeded":                                          "IBV_WC_RETRY_EXC_ERR",
		"NAK with syndrome 0x62": "NAK_REMOTE_ACCESS_ERROR",
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
		if !sameNames(names, strings.Fields(want)) {
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
		if found, err := Lookup(line); err != nil || len(found) != 1 || found[0].Name != want {
			t.Errorf("%q finds %v, %v, expected %s", line, found, err, want)
		}
	}
}
