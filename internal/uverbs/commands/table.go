//go:build linux

package commands

import "softrdma/internal/wire/uapi"

// commands are the commands of the legacy interface, and extended those with the
// extended header, by number.
var commands, extended map[uint32]*row

func init() {
	commands = map[uint32]*row{
		uapi.CmdGetContext:        {uapi.Size[uapi.Response](), uapi.Size[uapi.GetContextResp](), (*context).getContext},
		uapi.CmdQueryDevice:       {uapi.Size[uapi.Response](), uapi.Size[uapi.QueryDeviceResp](), (*context).queryDevice},
		uapi.CmdQueryPort:         {uapi.Size[uapi.QueryPort](), uapi.Size[uapi.QueryPortResp](), (*context).queryPort},
		uapi.CmdAllocPD:           {uapi.Size[uapi.Response](), uapi.Size[uapi.HandleOnly](), (*context).allocPD},
		uapi.CmdDeallocPD:         {uapi.Size[uapi.HandleOnly](), 0, (*context).deallocPD},
		uapi.CmdCreateAH:          {uapi.Size[uapi.CreateAH](), uapi.Size[uapi.HandleOnly](), (*context).createAH},
		uapi.CmdDestroyAH:         {uapi.Size[uapi.HandleOnly](), 0, (*context).destroyAH},
		uapi.CmdRegMR:             {uapi.Size[uapi.RegMR](), uapi.Size[uapi.RegMRResp](), (*context).regMR},
		uapi.CmdDeregMR:           {uapi.Size[uapi.HandleOnly](), 0, (*context).deregMR},
		uapi.CmdAllocMW:           {uapi.Size[uapi.AllocMW](), uapi.Size[uapi.AllocMWResp](), (*context).allocMW},
		uapi.CmdDeallocMW:         {uapi.Size[uapi.HandleOnly](), 0, (*context).deallocMW},
		uapi.CmdCreateCompChannel: {uapi.Size[uapi.Response](), uapi.Size[uapi.HandleOnly](), (*context).createChannel},
		uapi.CmdCreateCQ:          {uapi.Size[uapi.CreateCQ](), uapi.Size[uapi.CreateCQResp](), (*context).createCQ},
		uapi.CmdResizeCQ:          {uapi.Size[uapi.ResizeCQ](), uapi.Size[uapi.ResizeCQResp](), (*context).resizeCQ},
		uapi.CmdDestroyCQ:         {uapi.Size[uapi.Destroy](), uapi.Size[uapi.DestroyCQResp](), (*context).destroyCQ},
		uapi.CmdReqNotifyCQ:       {uapi.Size[uapi.ReqNotifyCQ](), 0, (*context).reqNotifyCQ},
		uapi.CmdCreateQP:          {uapi.Size[uapi.CreateQP](), uapi.Size[uapi.CreateQPResp](), (*context).createQP},
		uapi.CmdQueryQP:           {uapi.Size[uapi.QueryQP](), uapi.Size[uapi.QueryQPResp](), (*context).queryQP},
		uapi.CmdModifyQP:          {uapi.Size[uapi.ModifyQP](), 0, (*context).modifyQP},
		uapi.CmdDestroyQP:         {uapi.Size[uapi.Destroy](), uapi.Size[uapi.DestroyResp](), (*context).destroyQP},
		uapi.CmdPostSend:          {uapi.Size[uapi.PostSend](), 4, (*context).postSend},
		uapi.CmdAttachMcast:       {uapi.Size[uapi.Mcast](), 0, (*context).attachMcast},
		uapi.CmdDetachMcast:       {uapi.Size[uapi.Mcast](), 0, (*context).detachMcast},
		uapi.CmdCreateSRQ:         {uapi.Size[uapi.CreateSRQ](), uapi.Size[uapi.CreateSRQResp](), (*context).createSRQ},
		uapi.CmdCreateXSRQ:        {uapi.Size[uapi.CreateXSRQ](), uapi.Size[uapi.CreateSRQResp](), (*context).createXSRQ},
		uapi.CmdModifySRQ:         {uapi.Size[uapi.ModifySRQ](), 0, (*context).modifySRQ},
		uapi.CmdQuerySRQ:          {uapi.Size[uapi.QuerySRQ](), uapi.Size[uapi.QuerySRQResp](), (*context).querySRQ},
		uapi.CmdDestroySRQ:        {uapi.Size[uapi.Destroy](), uapi.Size[uapi.DestroyResp](), (*context).destroySRQ},
	}
	extended = map[uint32]*row{
		uapi.CmdQueryDevice: {8, uapi.Size[uapi.QueryDeviceResp]() + 8, (*context).exQueryDevice},
		uapi.CmdCreateCQ:    {uapi.Size[uapi.ExCreateCQ](), uapi.Size[uapi.CreateCQResp]() + uapi.Size[uapi.ExResp](), (*context).exCreateCQ},
		uapi.CmdCreateQP:    {uapi.Size[uapi.ExCreateQPBase]() + 8, uapi.Size[uapi.CreateQPResp]() + uapi.Size[uapi.ExResp](), (*context).exCreateQP},
		uapi.CmdModifyQP:    {uapi.Size[uapi.ModifyQP]() + 8, 0, (*context).modifyQP},
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
