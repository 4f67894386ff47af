package mad

// Management classes (IBTA 13.4.4).
const (
	ClassLIDRouted      = 0x01 // subnet management, routed by LID
	ClassDirected       = 0x81 // subnet management, directed route
	ClassAdministration = 0x03
	ClassPerformance    = 0x04
	ClassBaseboard      = 0x05
	ClassDevice         = 0x06
	ClassSNMP           = 0x08
	ClassCongestion     = 0x21
)

// Methods (IBTA 13.4.5, 15.2.2). MethodSend stands with the communication
// manager's messages.
const (
	MethodGet              = 0x01
	MethodSet              = 0x02
	MethodTrap             = 0x05
	MethodReport           = 0x06
	MethodTrapRepress      = 0x07
	MethodGetTable         = 0x12
	MethodGetTraceTable    = 0x13
	MethodGetMulti         = 0x14
	MethodDelete           = 0x15
	MethodGetResponse      = 0x81
	MethodReportResponse   = 0x86
	MethodGetTableResponse = 0x92
	MethodGetMultiResponse = 0x94
	MethodDeleteResponse   = 0x95

	ResponseBit = 0x80
)

// Attributes that every class has (IBTA 13.4.8). InformInfo is the subnet
// administrator's.
const (
	AttrClassPortInfo AttributeID = 0x0001
	AttrNotice        AttributeID = 0x0002
	AttrInformInfo    AttributeID = 0x0003
)

// Status of a response, the bits that every class has (IBTA 13.4.7). The upper
// 8 bits belong to the class.
const (
	StatusOK              = 0x0000
	StatusBusy            = 0x0001
	StatusRedirect        = 0x0002
	StatusVersion         = 0x0004 // unsupported base version, class version or class
	StatusMethod          = 0x0008 // unsupported method
	StatusMethodAttribute = 0x000c // unsupported combination of method and attribute
	StatusInvalid         = 0x001c // invalid value in the attribute or its modifier
)
