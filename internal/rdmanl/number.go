package rdmanl

// The client of the netlink family that describes devices, and the place of its number in the type
// of a message.
const (
	clientNLDEV = 5
	clientShift = 10
)

// A Command is a command of the client (rdma_nldev_command).
type Command uint16

// The commands that are answered.
const (
	CmdGet         Command = 1
	CmdPortGet     Command = 5
	CmdSysGet      Command = 6
	CmdResGet      Command = 9
	CmdResQPGet    Command = 10
	CmdResCMIDGet  Command = 11
	CmdResCQGet    Command = 12
	CmdResMRGet    Command = 13
	CmdResPDGet    Command = 14
	CmdGetChardev  Command = 15
	CmdStatGet     Command = 17
	CmdResCtxGet   Command = 22
	CmdResSRQGet   Command = 23
	CmdStatGetStat Command = 24 // which statistics there are
	CmdMonitor     Command = 28 // of notifications, which are not asked for
)

// Type returns the type of the messages of a command.
func (c Command) Type() uint16 { return clientNLDEV<<clientShift | uint16(c) }

// The attributes of messages (rdma_nldev_attr).
const (
	AttrDevIndex         = 1
	AttrDevName          = 2
	AttrPortIndex        = 3
	AttrCapFlags         = 4
	AttrNodeGUID         = 6
	AttrSysImageGUID     = 7
	AttrSubnetPrefix     = 8
	AttrLID              = 9
	AttrSMLID            = 10
	AttrLMC              = 11
	AttrPortState        = 12
	AttrPortPhysState    = 13
	AttrDevNodeType      = 14
	attrSummary          = 15
	attrSummaryEntry     = 16
	attrSummaryName      = 17
	attrSummaryCurrent   = 18
	attrQP               = 19
	attrQPEntry          = 20
	AttrLQPN             = 21
	attrRQPN             = 22
	attrRQPSN            = 23
	attrSQPSN            = 24
	attrPathMigState     = 25
	attrType             = 26
	attrState            = 27
	AttrPID              = 28
	attrKernelName       = 29
	attrCMID             = 30
	attrCMIDEntry        = 31
	attrPortSpace        = 32
	attrSrcAddr          = 33
	attrDstAddr          = 34
	attrCQ               = 35
	attrCQEntry          = 36
	attrCQE              = 37
	attrUseCount         = 38
	attrMR               = 40
	attrMREntry          = 41
	attrRKey             = 42
	attrLKey             = 43
	attrMRLength         = 45
	attrPD               = 46
	attrPDEntry          = 47
	AttrNdevIndex        = 50
	AttrNdevName         = 51
	attrPDN              = 60
	attrCQN              = 61
	attrMRN              = 62
	attrCMIDN            = 63
	attrCtxN             = 64
	attrNetnsMode        = 66
	AttrDevProtocol      = 67
	AttrChardevType      = 69
	AttrChardevName      = 70
	AttrChardevABI       = 71
	AttrChardev          = 72
	AttrDriverID         = 73
	attrStatRes          = 75
	attrHWCounters       = 80
	attrHWCounterEntry   = 81
	attrHWCounterName    = 82
	attrHWCounterValue   = 83
	attrDevDIM           = 84
	attrCtx              = 86
	attrCtxEntry         = 87
	attrSRQ              = 88
	attrSRQEntry         = 89
	attrSRQN             = 90
	AttrCopyOnFork       = 93
	attrHWCounterIndex   = 94
	attrHWCounterDynamic = 95
	AttrEventType        = 102
	attrMonitorMode      = 103
)
