package madtest

// NodeInfo has the fields of IBTA 14.2.5.3.
var NodeInfo = []Field{
	{"BaseVersion", 0, 0, 8}, {"ClassVersion", 1, 0, 8}, {"Type", 2, 0, 8}, {"NumPorts", 3, 0, 8},
	{"SystemImageGUID", 4, 0, 64}, {"NodeGUID", 12, 0, 64}, {"PortGUID", 20, 0, 64},
	{"PartitionCap", 28, 0, 16}, {"DeviceID", 30, 0, 16}, {"Revision", 32, 0, 32},
	{"LocalPort", 36, 0, 8}, {"VendorID", 37, 0, 24},
}

// SwitchInfo has the fields of IBTA 14.2.5.4.
var SwitchInfo = []Field{
	{"LinearCap", 0, 0, 16}, {"RandomCap", 2, 0, 16}, {"MulticastCap", 4, 0, 16}, {"LinearTop", 6, 0, 16},
	{"DefaultPort", 8, 0, 8}, {"DefaultMulticastPrimary", 9, 0, 8}, {"DefaultMulticastNotPrimary", 10, 0, 8},
	{"LifeTime", 11, 0, 5}, {"PortStateChange", 11, 5, 1}, {"OptimizedSLtoVL", 11, 6, 2},
	{"LIDsPerPort", 12, 0, 16}, {"PartitionCap", 14, 0, 16},
	{"EnforceInbound", 16, 0, 1}, {"EnforceOutbound", 16, 1, 1}, {"FilterRawInbound", 16, 2, 1},
	{"FilterRawOutbound", 16, 3, 1}, {"EnhancedPort0", 16, 4, 1}, {"MulticastTop", 18, 0, 16},
}

// PortInfo has the fields of IBTA 14.2.5.6.
var PortInfo = []Field{
	{"MKey", 0, 0, 64}, {"GIDPrefix", 8, 0, 64}, {"LID", 16, 0, 16}, {"MasterSMLID", 18, 0, 16},
	{"CapabilityMask", 20, 0, 32}, {"DiagCode", 24, 0, 16}, {"MKeyLeasePeriod", 26, 0, 16},
	{"LocalPort", 28, 0, 8}, {"WidthEnabled", 29, 0, 8}, {"WidthSupported", 30, 0, 8}, {"WidthActive", 31, 0, 8},
	{"SpeedSupported", 32, 0, 4}, {"State", 32, 4, 4}, {"Physical", 33, 0, 4}, {"DownDefault", 33, 4, 4},
	{"MKeyProtect", 34, 0, 2}, {"LMC", 34, 5, 3}, {"SpeedActive", 35, 0, 4}, {"SpeedEnabled", 35, 4, 4},
	{"NeighborMTU", 36, 0, 4}, {"MasterSMSL", 36, 4, 4}, {"VLCap", 37, 0, 4}, {"InitType", 37, 4, 4},
	{"VLHighLimit", 38, 0, 8}, {"VLArbitrationHighCap", 39, 0, 8}, {"VLArbitrationLowCap", 40, 0, 8},
	{"InitTypeReply", 41, 0, 4}, {"MTUCap", 41, 4, 4}, {"VLStallCount", 42, 0, 3}, {"HOQLife", 42, 3, 5},
	{"OperationalVLs", 43, 0, 4}, {"EnforceInbound", 43, 4, 1}, {"EnforceOutbound", 43, 5, 1},
	{"FilterRawInbound", 43, 6, 1}, {"FilterRawOutbound", 43, 7, 1},
	{"MKeyViolations", 44, 0, 16}, {"PKeyViolations", 46, 0, 16}, {"QKeyViolations", 48, 0, 16},
	{"GUIDCap", 50, 0, 8}, {"ClientReregister", 51, 0, 1}, {"McastPKeyTrapSuppression", 51, 1, 2},
	{"SubnetTimeout", 51, 3, 5}, {"RespTimeValue", 52, 3, 5}, {"LocalPhyErrors", 53, 0, 4}, {"OverrunErrors", 53, 4, 4},
	{"MaxCreditHint", 54, 0, 16}, {"LinkRoundTripLatency", 57, 0, 24}, {"CapabilityMask2", 60, 0, 16},
	{"ExtSpeedActive", 62, 0, 4}, {"ExtSpeedSupported", 62, 4, 4}, {"ExtSpeedEnabled", 63, 3, 5},
}

// SMInfo has the fields of IBTA 14.2.5.13.
var SMInfo = []Field{
	{"GUID", 0, 0, 64}, {"SMKey", 8, 0, 64}, {"ActCount", 16, 0, 32}, {"Priority", 20, 0, 4}, {"State", 20, 4, 4},
}
