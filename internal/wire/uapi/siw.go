package uapi

// The answers of siw's driver, as its user-space provider reads them (siw-abi.h).

// SIWContext is siw_uresp_alloc_ctx.
type SIWContext struct{ DevID, _ uint32 }

// SIWCQ is siw_uresp_create_cq.
type SIWCQ struct {
	ID, Entries uint32
	Key         uint64 // where to map it
}

// SIWQP is siw_uresp_create_qp.
type SIWQP struct {
	ID, Sends, Receives, _ uint32
	SQKey, RQKey           uint64
}

// SIWSRQ is siw_uresp_create_srq.
type SIWSRQ struct {
	Entries, _ uint32
	Key        uint64
}

// SIWMR is siw_uresp_reg_mr.
type SIWMR struct{ STag, _ uint32 }
