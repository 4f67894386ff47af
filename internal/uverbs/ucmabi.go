//go:build linux

package uverbs

import "softrdma/internal/uverbs/uapi"

// As in abi.go, of connection management.
type (
	ucmHeader         = uapi.CMHeader
	ucmCreate         = uapi.CMCreate
	ucmByID           = uapi.CMByID
	sockaddrIn6       = uapi.SockaddrIn6
	ucmBindIPCmd      = uapi.CMBindIPCmd
	ucmBindCmd        = uapi.CMBindCmd
	ucmResolveIPCmd   = uapi.CMResolveIPCmd
	ucmResolveAddrCmd = uapi.CMResolveAddrCmd
	ucmPair           = uapi.CMPair
	userPathRec       = uapi.UserPathRec
	ucmRoute          = uapi.CMRoute
	ucmAddr           = uapi.CMAddr
	connParam         = uapi.ConnParam
	udParam           = uapi.UDParam
	ucmConnectCmd     = uapi.CMConnectCmd
	ucmAcceptCmd      = uapi.CMAcceptCmd
	ucmRejectCmd      = uapi.CMRejectCmd
	ucmEvent          = uapi.CMEvent
	ucmOption         = uapi.CMOption
	ucmJoinIPCmd      = uapi.CMJoinIPCmd
	ucmJoinCmd        = uapi.CMJoinCmd
	qpAttr            = uapi.QPAttr
)

const (
	ucmCreateID     = uapi.CMCreateID
	ucmDestroyID    = uapi.CMDestroyID
	ucmBindIP       = uapi.CMBindIP
	ucmResolveIP    = uapi.CMResolveIP
	ucmResolveRoute = uapi.CMResolveRoute
	ucmQueryRoute   = uapi.CMQueryRoute
	ucmConnect      = uapi.CMConnect
	ucmListen       = uapi.CMListen
	ucmAccept       = uapi.CMAccept
	ucmReject       = uapi.CMReject
	ucmDisconnect   = uapi.CMDisconnect
	ucmInitQPAttr   = uapi.CMInitQPAttr
	ucmGetEvent     = uapi.CMGetEvent
	ucmSetOption    = uapi.CMSetOption
	ucmNotify       = uapi.CMNotify
	ucmJoinIPMcast  = uapi.CMJoinIPMcast
	ucmLeaveMcast   = uapi.CMLeaveMcast
	ucmMigrateID    = uapi.CMMigrateID
	ucmQuery        = uapi.CMQuery
	ucmBind         = uapi.CMBind
	ucmResolveAddr  = uapi.CMResolveAddr
	ucmJoinMcast    = uapi.CMJoinMcast
)
