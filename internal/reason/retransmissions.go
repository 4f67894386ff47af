package reason

// Retransmissions are the causes of sending packets again, and the reasons that count them.
var Retransmissions = map[string][]Reason{
	"loss":         {PacketRepeated},
	"sequence_nak": {NAKSequence},
	"rnr_nak":      {NAKNotReady},
	"timeout":      {AckTimeout},
}
