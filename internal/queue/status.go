package queue

import "fmt"

var statusNames = [...]string{
	Success:        "IBV_WC_SUCCESS",
	LocLenErr:      "IBV_WC_LOC_LEN_ERR",
	LocQPOpErr:     "IBV_WC_LOC_QP_OP_ERR",
	LocEECOpErr:    "IBV_WC_LOC_EEC_OP_ERR",
	LocProtErr:     "IBV_WC_LOC_PROT_ERR",
	WRFlushErr:     "IBV_WC_WR_FLUSH_ERR",
	MWBindErr:      "IBV_WC_MW_BIND_ERR",
	BadRespErr:     "IBV_WC_BAD_RESP_ERR",
	LocAccessErr:   "IBV_WC_LOC_ACCESS_ERR",
	RemInvReqErr:   "IBV_WC_REM_INV_REQ_ERR",
	RemAccessErr:   "IBV_WC_REM_ACCESS_ERR",
	RemOpErr:       "IBV_WC_REM_OP_ERR",
	RetryExcErr:    "IBV_WC_RETRY_EXC_ERR",
	RNRRetryExcErr: "IBV_WC_RNR_RETRY_EXC_ERR",
	LocRDDViolErr:  "IBV_WC_LOC_RDD_VIOL_ERR",
	RemInvRDReqErr: "IBV_WC_REM_INV_RD_REQ_ERR",
	RemAbortErr:    "IBV_WC_REM_ABORT_ERR",
	InvEECNErr:     "IBV_WC_INV_EECN_ERR",
	InvEECStateErr: "IBV_WC_INV_EEC_STATE_ERR",
	FatalErr:       "IBV_WC_FATAL_ERR",
	RespTimeoutErr: "IBV_WC_RESP_TIMEOUT_ERR",
	GeneralErr:     "IBV_WC_GENERAL_ERR",
}

// Statuses is the number of statuses.
const Statuses = GeneralErr + 1

// String returns the name that libibverbs gives the status.
func (s Status) String() string {
	if int(s) < len(statusNames) {
		return statusNames[s]
	}
	return fmt.Sprintf("status %d", uint32(s))
}
