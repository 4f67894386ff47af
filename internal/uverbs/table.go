//go:build linux

package uverbs

// commands are those of the legacy interface, extended those with the extended
// header, by their numbers.
var commands, extended map[uint32]*row

func init() {
	commands = map[uint32]*row{
		cmdGetContext:        {size[response](), size[getContextResp](), (*context).getContext},
		cmdQueryDevice:       {size[response](), size[queryDeviceResp](), (*context).queryDevice},
		cmdQueryPort:         {size[queryPort](), size[queryPortResp](), (*context).queryPort},
		cmdAllocPD:           {size[response](), size[handleOnly](), (*context).allocPD},
		cmdDeallocPD:         {size[handleOnly](), 0, (*context).deallocPD},
		cmdCreateAH:          {size[createAH](), size[handleOnly](), (*context).createAH},
		cmdDestroyAH:         {size[handleOnly](), 0, (*context).destroyAH},
		cmdRegMR:             {size[regMR](), size[regMRResp](), (*context).regMR},
		cmdDeregMR:           {size[handleOnly](), 0, (*context).deregMR},
		cmdAllocMW:           {size[allocMW](), size[allocMWResp](), (*context).allocMW},
		cmdDeallocMW:         {size[handleOnly](), 0, (*context).deallocMW},
		cmdCreateCompChannel: {size[response](), size[handleOnly](), (*context).createChannel},
		cmdCreateCQ:          {size[createCQ](), size[createCQResp](), (*context).createCQ},
		cmdResizeCQ:          {size[resizeCQ](), size[resizeCQResp](), (*context).resizeCQ},
		cmdDestroyCQ:         {size[destroy](), size[destroyCQResp](), (*context).destroyCQ},
		cmdReqNotifyCQ:       {size[reqNotifyCQ](), 0, (*context).reqNotifyCQ},
		cmdCreateQP:          {size[createQP](), size[createQPResp](), (*context).createQP},
		cmdQueryQP:           {size[queryQP](), size[queryQPResp](), (*context).queryQP},
		cmdModifyQP:          {size[modifyQP](), 0, (*context).modifyQP},
		cmdDestroyQP:         {size[destroy](), size[destroyResp](), (*context).destroyQP},
		cmdPostSend:          {size[postSend](), 4, (*context).postSend},
		cmdAttachMcast:       {size[mcast](), 0, (*context).attachMcast},
		cmdDetachMcast:       {size[mcast](), 0, (*context).detachMcast},
		cmdCreateSRQ:         {size[createSRQ](), size[createSRQResp](), (*context).createSRQ},
		cmdCreateXSRQ:        {size[createXSRQ](), size[createSRQResp](), (*context).createXSRQ},
		cmdModifySRQ:         {size[modifySRQ](), 0, (*context).modifySRQ},
		cmdQuerySRQ:          {size[querySRQ](), size[querySRQResp](), (*context).querySRQ},
		cmdDestroySRQ:        {size[destroy](), size[destroyResp](), (*context).destroySRQ},
	}
	extended = map[uint32]*row{
		cmdQueryDevice: {8, size[queryDeviceResp]() + 8, (*context).exQueryDevice},
		cmdCreateCQ:    {size[exCreateCQ](), size[createCQResp]() + size[exResp](), (*context).exCreateCQ},
		cmdCreateQP:    {size[exCreateQPBase]() + 8, size[createQPResp]() + size[exResp](), (*context).exCreateQP},
		cmdModifyQP:    {size[modifyQP]() + 8, 0, (*context).modifyQP},
	}
}
