//go:build linux

package uverbs

import "softrdma/internal/uverbs/uapi"

// The interface is also that of this module's own programs, and stands in uapi.
type (
	cmdHeader         = uapi.CmdHeader
	exHeader          = uapi.ExHeader
	getContextResp    = uapi.GetContextResp
	queryDeviceResp   = uapi.QueryDeviceResp
	exQueryDeviceResp = uapi.ExQueryDeviceResp
	queryPort         = uapi.QueryPort
	queryPortResp     = uapi.QueryPortResp
	response          = uapi.Response
	handleOnly        = uapi.HandleOnly
	regMR             = uapi.RegMR
	regMRResp         = uapi.RegMRResp
	allocMW           = uapi.AllocMW
	allocMWResp       = uapi.AllocMWResp
	createCQ          = uapi.CreateCQ
	exCreateCQ        = uapi.ExCreateCQ
	createCQResp      = uapi.CreateCQResp
	resizeCQ          = uapi.ResizeCQ
	resizeCQResp      = uapi.ResizeCQResp
	reqNotifyCQ       = uapi.ReqNotifyCQ
	destroy           = uapi.Destroy
	destroyCQResp     = uapi.DestroyCQResp
	mmInfo            = uapi.MmInfo
	globalRoute       = uapi.GlobalRoute
	ahAttr            = uapi.AHAttr
	createAH          = uapi.CreateAH
	createQP          = uapi.CreateQP
	exCreateQPBase    = uapi.ExCreateQPBase
	exCreateQP        = uapi.ExCreateQP
	createQPResp      = uapi.CreateQPResp
	exResp            = uapi.ExResp
	qpDest            = uapi.QPDest
	queryQP           = uapi.QueryQP
	queryQPResp       = uapi.QueryQPResp
	modifyQP          = uapi.ModifyQP
	destroyResp       = uapi.DestroyResp
	postSend          = uapi.PostSend
	mcast             = uapi.Mcast
	createSRQ         = uapi.CreateSRQ
	createXSRQ        = uapi.CreateXSRQ
	createSRQResp     = uapi.CreateSRQResp
	rxeSRQ            = uapi.CreateSRQDriver
	modifySRQ         = uapi.ModifySRQ
	querySRQ          = uapi.QuerySRQ
	querySRQResp      = uapi.QuerySRQResp
	asyncEvent        = uapi.AsyncEvent
	rxeQP             = uapi.RxeQP
	request           = uapi.Request
	place             = uapi.Place
	reply             = uapi.Reply
)

const (
	cmdGetContext        = uapi.CmdGetContext
	cmdQueryDevice       = uapi.CmdQueryDevice
	cmdQueryPort         = uapi.CmdQueryPort
	cmdAllocPD           = uapi.CmdAllocPD
	cmdDeallocPD         = uapi.CmdDeallocPD
	cmdCreateAH          = uapi.CmdCreateAH
	cmdDestroyAH         = uapi.CmdDestroyAH
	cmdRegMR             = uapi.CmdRegMR
	cmdReregMR           = uapi.CmdReregMR
	cmdDeregMR           = uapi.CmdDeregMR
	cmdAllocMW           = uapi.CmdAllocMW
	cmdDeallocMW         = uapi.CmdDeallocMW
	cmdCreateCompChannel = uapi.CmdCreateCompChannel
	cmdCreateCQ          = uapi.CmdCreateCQ
	cmdResizeCQ          = uapi.CmdResizeCQ
	cmdDestroyCQ         = uapi.CmdDestroyCQ
	cmdPollCQ            = uapi.CmdPollCQ
	cmdPeekCQ            = uapi.CmdPeekCQ
	cmdReqNotifyCQ       = uapi.CmdReqNotifyCQ
	cmdCreateQP          = uapi.CmdCreateQP
	cmdQueryQP           = uapi.CmdQueryQP
	cmdModifyQP          = uapi.CmdModifyQP
	cmdDestroyQP         = uapi.CmdDestroyQP
	cmdPostSend          = uapi.CmdPostSend
	cmdPostRecv          = uapi.CmdPostRecv
	cmdAttachMcast       = uapi.CmdAttachMcast
	cmdDetachMcast       = uapi.CmdDetachMcast
	cmdCreateSRQ         = uapi.CmdCreateSRQ
	cmdModifySRQ         = uapi.CmdModifySRQ
	cmdQuerySRQ          = uapi.CmdQuerySRQ
	cmdDestroySRQ        = uapi.CmdDestroySRQ
	cmdCreateXSRQ        = uapi.CmdCreateXSRQ
	cmdExtended          = uapi.CmdExtended
	cmdMask              = uapi.CmdMask

	protocol    = uapi.Protocol
	opOpen      = uapi.OpOpen
	opIoctl     = uapi.OpIoctl
	opWrite     = uapi.OpWrite
	opRead      = uapi.OpRead
	opMmap      = uapi.OpMmap
	opHello     = uapi.OpHello
	opClose     = uapi.OpClose
	opNetlink   = uapi.OpNetlink
	opTell      = uapi.OpTell
	requestLen  = uapi.RequestLen
	maxData     = uapi.MaxData
	maxFDs      = uapi.MaxFDs
	kindAsync   = uapi.KindAsync
	kindChannel = uapi.KindChannel
	replyWait   = uapi.ReplyWait
	replyHuge   = uapi.ReplyCollapse

	replyShare   = uapi.ReplyShare
	replyPrivate = uapi.ReplyPrivate
	replyBoard   = uapi.ReplyBoard
)

func parse[T any](b []byte) (v T, ok bool) { return uapi.Parse[T](b) }

func bytesOf[T any](v *T) []byte { return uapi.Bytes(v) }

func size[T any]() int { return uapi.Size[T]() }
