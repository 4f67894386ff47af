package reason

// A Number is the kind of one of the two numbers of a Detail, if its values have
// names. The packages that own these kinds provide the names (see Name).
type Number uint8

// The numbers with names. The zero value is a quantity, an address or a key,
// which is printed as it is.
const (
	NumQPType      Number = iota + 1 // ibv_qp_type
	NumQPState                       // ibv_qp_state
	NumAccess                        // ibv_access_flags
	NumOperation                     // ibv_wr_opcode
	NumStatus                        // ibv_wc_status
	NumCause                         // a Reason
	NumControl                       // a way of congestion control
	NumKeyState                      // whether a memory key can be used: 1, 0
	NumOpcode                        // of a BTH
	NumTransport                     // of a BTH's opcode
	NumSyndrome                      // of an acknowledge
	NumFamily                        // of an address: Linux's AF_INET and AF_INET6
	NumErrno                         // of the system
	NumCMAttribute                   // attribute ID of a management datagram
	NumCMTransport                   // service type of a connection request
	NumCMState                       // of a connection
	NumCMReject                      // why a connection is rejected
	NumSIDRStatus                    // outcome of a service ID resolution
	NumStreamState                   // of an iWARP stream
	NumRDMAPOpcode                   // of an RDMAP message
	NumTerminate                     // code of a Terminate message
	NumSharing                       // why a program does not share its memory
	numbers
)

// names has the functions that Name was given.
var names [numbers]func(uint64) string

// Name registers the function that names a kind of number. The package that owns
// the kind calls it from an init function. The function returns "" for a number
// without a name.
func Name(n Number, name func(uint64) string) { names[n] = name }

// named are the reasons whose numbers have names: the expected, the found. Their
// formats have %v in these places.
var named = [Count][2]Number{
	PacketTransport:   {NumTransport, NumTransport},
	PacketQPState:     {NumQPState, NumQPState},
	OpcodeSequence:    {NumOpcode, NumOpcode},
	OpcodeUnsupported: {NumTransport, NumOpcode},
	KeyInvalid:        {NumKeyState, NumKeyState},
	KeyAccess:         {NumAccess, NumAccess},
	QPAccess:          {NumAccess, NumAccess},
	NAKReserved:       {0, NumSyndrome},
	LocalAccess:       {NumAccess, NumAccess},
	LocalOpcode:       {NumQPType, NumOperation},
	LocalQPState:      {NumQPState, NumQPState},
	Flushed:           {NumCause, NumStatus},
	ResponseOpcode:    {NumOperation, NumOpcode},
	CongestionIgnored: {NumControl, 0},

	AddressUnreachable: {NumFamily, NumFamily},
	SendRefused:        {0, NumErrno},
	SendFailed:         {0, NumErrno},
	SendUnreachable:    {0, NumErrno},

	MADAttribute:  {0, NumCMAttribute},
	CMTransport:   {NumCMTransport, NumCMTransport},
	CMState:       {NumCMState, NumCMState},
	CMDuplicate:   {NumCMAttribute, NumCMState},
	CMRejected:    {NumCMState, NumCMReject},
	CMSIDRRefused: {NumSIDRStatus, NumSIDRStatus},
	CMServiceType: {NumQPType, NumQPType},

	MPAState:         {NumStreamState, NumStreamState},
	RDMAPOpcode:      {0, NumRDMAPOpcode},
	RDMAPSequence:    {NumRDMAPOpcode, NumRDMAPOpcode},
	RDMAPExtension:   {NumQPType, NumOperation},
	TermProtection:   {0, NumTerminate},
	TermOperation:    {0, NumTerminate},
	TermCatastrophic: {0, NumTerminate},
	TermStream:       {0, NumTerminate},
	IWARPType:        {NumQPType, NumQPType},
	ConnectRefused:   {0, NumErrno},
	ConnectFailed:    {0, NumErrno},

	ClientMemory:      {0, NumErrno},
	MemoryPrivate:     {0, NumSharing},
	ServerDescriptors: {0, NumErrno},
	CommandRefused:    {0, NumErrno},
}

// argument is a number of a detail as its format takes it: the name, where it
// has one.
func (n Number) argument(v uint64) any {
	if n == NumCause {
		return Reason(v)
	}
	if f := names[n]; f != nil {
		if s := f(v); s != "" {
			return s
		}
	}
	return v
}
