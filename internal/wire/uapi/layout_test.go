//go:build linux

package uapi

import (
	"testing"
	"unsafe"
)

// The numbers were printed by a C program from Linux's rdma/ib_user_verbs.h,
// rdma/rdma_user_cm.h, rdma/ib_user_mad.h and rdma/rdma_user_rxe.h with sizeof and offsetof.
func TestLayoutMatchesTheKernel(t *testing.T) {
	var (
		dev   QueryDeviceResp
		ex    ExQueryDeviceResp
		port  QueryPortResp
		cqp   CreateQP
		qq    QueryQPResp
		mq    ModifyQP
		attr  QPAttr
		route CMRoute
		ev    CMEvent
	)
	for name, x := range map[string][2]uintptr{
		"ib_uverbs_query_device_resp":                        {unsafe.Sizeof(dev), 176},
		"ib_uverbs_query_device_resp.max_sge":                {unsafe.Offsetof(dev.MaxSGE), 64},
		"ib_uverbs_query_device_resp.max_qp_rd_atom":         {unsafe.Offsetof(dev.MaxQPRdAtom), 88},
		"ib_uverbs_query_device_resp.atomic_cap":             {unsafe.Offsetof(dev.AtomicCap), 108},
		"ib_uverbs_query_device_resp.max_srq_sge":            {unsafe.Offsetof(dev.MaxSRQSGE), 164},
		"ib_uverbs_query_device_resp.phys_port_cnt":          {unsafe.Offsetof(dev.PhysPortCnt), 171},
		"ib_uverbs_ex_query_device_resp":                     {unsafe.Sizeof(ex), 304},
		"ib_uverbs_ex_query_device_resp.device_cap_flags_ex": {unsafe.Offsetof(ex.DeviceCapFlagsEx), 224},
		"ib_uverbs_query_port_resp":                          {unsafe.Sizeof(port), 40},
		"ib_uverbs_query_port_resp.state":                    {unsafe.Offsetof(port.State), 26},
		"ib_uverbs_query_port_resp.link_layer":               {unsafe.Offsetof(port.LinkLayer), 37},
		"ib_uverbs_ioctl_hdr":                                {unsafe.Sizeof(IoctlHeader{}), VerbsIoctl >> 16 & 0x3fff},
		"ib_uverbs_attr":                                     {unsafe.Sizeof(IoctlAttr{}), 16},
		"ib_uverbs_attr.data":                                {unsafe.Offsetof(IoctlAttr{}.Data), 8},
		"ib_uverbs_ex_query_device_resp.odp_caps":            {unsafe.Offsetof(ex.ODPGeneral), 184},
		"ib_uverbs_reg_mr":                                   {unsafe.Sizeof(RegMR{}), 40},
		"ib_uverbs_create_cq":                                {unsafe.Sizeof(CreateCQ{}), 32},
		"ib_uverbs_ex_create_cq":                             {unsafe.Sizeof(ExCreateCQ{}), 32},
		"ib_uverbs_resize_cq":                                {unsafe.Sizeof(ResizeCQ{}), 16},
		"ib_uverbs_create_ah":                                {unsafe.Sizeof(CreateAH{}), 56},
		"ib_uverbs_create_qp":                                {unsafe.Sizeof(cqp), 56},
		"ib_uverbs_create_qp.qp_type":                        {unsafe.Offsetof(cqp.Type), 53},
		"ib_uverbs_ex_create_qp":                             {unsafe.Sizeof(ExCreateQP{}), 64},
		"ib_uverbs_create_qp_resp":                           {unsafe.Sizeof(CreateQPResp{}), 32},
		"ib_uverbs_query_qp_resp":                            {unsafe.Sizeof(qq), 128},
		"ib_uverbs_query_qp_resp.qp_state":                   {unsafe.Offsetof(qq.State), 108},
		"ib_uverbs_query_qp_resp.sq_sig_all":                 {unsafe.Offsetof(qq.SQSigAll), 122},
		"ib_uverbs_modify_qp":                                {unsafe.Sizeof(mq), 112},
		"ib_uverbs_modify_qp.qp_handle":                      {unsafe.Offsetof(mq.QPHandle), 64},
		"ib_uverbs_modify_qp.alt_timeout":                    {unsafe.Offsetof(mq.AltTimeout), 109},
		"ib_uverbs_create_srq":                               {unsafe.Sizeof(CreateSRQ{}), 32},
		"ib_uverbs_create_xsrq":                              {unsafe.Sizeof(CreateXSRQ{}), 48},
		"ib_uverbs_create_srq_resp":                          {unsafe.Sizeof(CreateSRQResp{}), 16},
		"ib_uverbs_attach_mcast":                             {unsafe.Sizeof(Mcast{}), 24},
		"ib_uverbs_qp_attr":                                  {unsafe.Sizeof(attr), 144},
		"ib_uverbs_qp_attr.alt_timeout":                      {unsafe.Offsetof(attr.AltTimeout), 138},
		"ib_user_mad_hdr":                                    {unsafe.Sizeof(MADHeader{}), 64},
		"ib_user_mad_hdr.gid":                                {unsafe.Offsetof(MADHeader{}.GID), 36},
		"ib_user_mad_hdr.pkey_index":                         {unsafe.Offsetof(MADHeader{}.PKeyIndex), MADHeaderOld},
		"ib_user_mad_reg_req":                                {unsafe.Sizeof(MADRegister{}), MADRegisterAgent >> 16 & 0x3fff},
		"ib_user_mad_reg_req.rmpp_version":                   {unsafe.Offsetof(MADRegister{}.RMPPVersion), 26},
		"ib_user_mad_reg_req2":                               {unsafe.Sizeof(MADRegister2{}), MADRegisterAgent2 >> 16 & 0x3fff},
		"ib_user_mad_reg_req2.oui":                           {unsafe.Offsetof(MADRegister2{}.OUI), 32},
		"rxe_create_srq_resp":                                {unsafe.Sizeof(CreateSRQDriver{}), 24},
		"rxe_create_qp_resp":                                 {unsafe.Sizeof(RxeQP{}), 32},
		"siw_uresp_alloc_ctx":                                {unsafe.Sizeof(SIWContext{}), 8},
		"siw_uresp_create_cq":                                {unsafe.Sizeof(SIWCQ{}), 16},
		"siw_uresp_create_qp":                                {unsafe.Sizeof(SIWQP{}), 32},
		"siw_uresp_create_qp.sq_key":                         {unsafe.Offsetof(SIWQP{}.SQKey), 16},
		"siw_uresp_create_srq":                               {unsafe.Sizeof(SIWSRQ{}), 16},
		"siw_uresp_reg_mr":                                   {unsafe.Sizeof(SIWMR{}), 8},
		"rdma_ucm_create_id":                                 {unsafe.Sizeof(CMCreate{}), 24},
		"rdma_ucm_bind_ip":                                   {unsafe.Sizeof(CMBindIPCmd{}), 40},
		"rdma_ucm_resolve_ip":                                {unsafe.Sizeof(CMResolveIPCmd{}), 64},
		"rdma_ucm_resolve_addr":                              {unsafe.Sizeof(CMResolveAddrCmd{}), 272},
		"rdma_ucm_query_route_resp.ibdev_index":              {unsafe.Sizeof(route), 200},
		"rdma_ucm_query_route_resp.src_addr":                 {unsafe.Offsetof(route.Src), 136},
		"rdma_ucm_query_addr_resp.ibdev_index":               {unsafe.Sizeof(CMAddr{}), 272},
		"rdma_ucm_conn_param":                                {unsafe.Sizeof(ConnParam{}), 272},
		"rdma_ucm_ud_param":                                  {unsafe.Sizeof(UDParam{}), 304},
		"rdma_ucm_connect.ece":                               {unsafe.Sizeof(CMConnectCmd{}), 280},
		"rdma_ucm_accept.ece":                                {unsafe.Sizeof(CMAcceptCmd{}), 288},
		"rdma_ucm_reject":                                    {unsafe.Sizeof(CMRejectCmd{}), 264},
		"rdma_ucm_event_resp":                                {unsafe.Sizeof(ev), 336},
		"rdma_ucm_event_resp.param":                          {unsafe.Offsetof(ev.Param), 20},
		"rdma_ucm_join_ip_mcast":                             {unsafe.Sizeof(CMJoinIPCmd{}), 48},
		"rdma_ucm_join_mcast":                                {unsafe.Sizeof(CMJoinCmd{}), 152},
		"rdma_ucm_set_option":                                {unsafe.Sizeof(CMOption{}), 24},
	} {
		if x[0] != x[1] {
			t.Errorf("%s: found %d, want %d", name, x[0], x[1])
		}
	}
}
