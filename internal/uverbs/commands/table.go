//go:build linux

package commands

import "softrdma/internal/wire/uapi"

// commands are the commands of the legacy interface, and extended those with the
// extended header, by number.
var commands, extended map[uint32]*row

func init() {
	commands = map[uint32]*row{
		uapi.CmdGetContext:        {"ibv_open_device", uapi.Size[uapi.Response](), uapi.Size[uapi.GetContextResp](), (*context).getContext},
		uapi.CmdQueryDevice:       {"ibv_query_device", uapi.Size[uapi.Response](), uapi.Size[uapi.QueryDeviceResp](), (*context).queryDevice},
		uapi.CmdQueryPort:         {"ibv_query_port", uapi.Size[uapi.QueryPort](), uapi.Size[uapi.QueryPortResp](), (*context).queryPort},
		uapi.CmdAllocPD:           {"ibv_alloc_pd", uapi.Size[uapi.Response](), uapi.Size[uapi.HandleOnly](), (*context).allocPD},
		uapi.CmdDeallocPD:         {"ibv_dealloc_pd", uapi.Size[uapi.HandleOnly](), 0, (*context).deallocPD},
		uapi.CmdCreateAH:          {"ibv_create_ah", uapi.Size[uapi.CreateAH](), uapi.Size[uapi.HandleOnly](), (*context).createAH},
		uapi.CmdDestroyAH:         {"ibv_destroy_ah", uapi.Size[uapi.HandleOnly](), 0, (*context).destroyAH},
		uapi.CmdRegMR:             {"ibv_reg_mr", uapi.Size[uapi.RegMR](), uapi.Size[uapi.RegMRResp](), (*context).regMR},
		uapi.CmdDeregMR:           {"ibv_dereg_mr", uapi.Size[uapi.HandleOnly](), 0, (*context).deregMR},
		uapi.CmdAllocMW:           {"ibv_alloc_mw", uapi.Size[uapi.AllocMW](), uapi.Size[uapi.AllocMWResp](), (*context).allocMW},
		uapi.CmdDeallocMW:         {"ibv_dealloc_mw", uapi.Size[uapi.HandleOnly](), 0, (*context).deallocMW},
		uapi.CmdCreateCompChannel: {"ibv_create_comp_channel", uapi.Size[uapi.Response](), uapi.Size[uapi.HandleOnly](), (*context).createChannel},
		uapi.CmdCreateCQ:          {"ibv_create_cq", uapi.Size[uapi.CreateCQ](), uapi.Size[uapi.CreateCQResp](), (*context).createCQ},
		uapi.CmdResizeCQ:          {"ibv_resize_cq", uapi.Size[uapi.ResizeCQ](), uapi.Size[uapi.ResizeCQResp](), (*context).resizeCQ},
		uapi.CmdDestroyCQ:         {"ibv_destroy_cq", uapi.Size[uapi.Destroy](), uapi.Size[uapi.DestroyCQResp](), (*context).destroyCQ},
		uapi.CmdReqNotifyCQ:       {"ibv_req_notify_cq", uapi.Size[uapi.ReqNotifyCQ](), 0, (*context).reqNotifyCQ},
		uapi.CmdCreateQP:          {"ibv_create_qp", uapi.Size[uapi.CreateQP](), uapi.Size[uapi.CreateQPResp](), (*context).createQP},
		uapi.CmdQueryQP:           {"ibv_query_qp", uapi.Size[uapi.QueryQP](), uapi.Size[uapi.QueryQPResp](), (*context).queryQP},
		uapi.CmdModifyQP:          {"ibv_modify_qp", uapi.Size[uapi.ModifyQP](), 0, (*context).modifyQP},
		uapi.CmdDestroyQP:         {"ibv_destroy_qp", uapi.Size[uapi.Destroy](), uapi.Size[uapi.DestroyResp](), (*context).destroyQP},
		uapi.CmdPostSend:          {"ibv_post_send", uapi.Size[uapi.PostSend](), 4, (*context).postSend},
		uapi.CmdAttachMcast:       {"ibv_attach_mcast", uapi.Size[uapi.Mcast](), 0, (*context).attachMcast},
		uapi.CmdDetachMcast:       {"ibv_detach_mcast", uapi.Size[uapi.Mcast](), 0, (*context).detachMcast},
		uapi.CmdCreateSRQ:         {"ibv_create_srq", uapi.Size[uapi.CreateSRQ](), uapi.Size[uapi.CreateSRQResp](), (*context).createSRQ},
		uapi.CmdCreateXSRQ:        {"ibv_create_srq", uapi.Size[uapi.CreateXSRQ](), uapi.Size[uapi.CreateSRQResp](), (*context).createXSRQ},
		uapi.CmdModifySRQ:         {"ibv_modify_srq", uapi.Size[uapi.ModifySRQ](), 0, (*context).modifySRQ},
		uapi.CmdQuerySRQ:          {"ibv_query_srq", uapi.Size[uapi.QuerySRQ](), uapi.Size[uapi.QuerySRQResp](), (*context).querySRQ},
		uapi.CmdDestroySRQ:        {"ibv_destroy_srq", uapi.Size[uapi.Destroy](), uapi.Size[uapi.DestroyResp](), (*context).destroySRQ},
	}
	extended = map[uint32]*row{
		uapi.CmdQueryDevice: {"ibv_query_device", 8, uapi.Size[uapi.QueryDeviceResp]() + 8, (*context).exQueryDevice},
		uapi.CmdCreateCQ:    {"ibv_create_cq", uapi.Size[uapi.ExCreateCQ](), uapi.Size[uapi.CreateCQResp]() + uapi.Size[uapi.ExResp](), (*context).exCreateCQ},
		uapi.CmdCreateQP:    {"ibv_create_qp", uapi.Size[uapi.ExCreateQPBase]() + 8, uapi.Size[uapi.CreateQPResp]() + uapi.Size[uapi.ExResp](), (*context).exCreateQP},
		uapi.CmdModifyQP:    {"ibv_modify_qp", uapi.Size[uapi.ModifyQP]() + 8, 0, (*context).modifyQP},
	}
}

// Samples returns each command with all fields 0. Fuzz tests begin with them.
func Samples() (list [][]byte) {
	for number, r := range commands {
		h := uapi.CmdHeader{Command: number, InWords: uint16((uapi.Size[uapi.CmdHeader]() + r.in) / 4), OutWords: uint16(r.out / 4)}
		list = append(list, append(uapi.Bytes(&h), make([]byte, r.in)...))
	}
	for number, r := range extended {
		h := uapi.CmdHeader{Command: number | uapi.CmdExtended, InWords: uint16(r.in / 8), OutWords: uint16(r.out / 8)}
		list = append(list, append(uapi.Bytes(&h), make([]byte, uapi.Size[uapi.ExHeader]()+r.in)...))
	}
	return list
}
