package mad

import "fmt"

// A RejectReason is why a REJ rejects (IBTA 12.6.7.2).
type RejectReason uint16

// The reasons.
const (
	RejectNoQP                RejectReason = 1
	RejectNoEEC               RejectReason = 2
	RejectNoResources         RejectReason = 3
	RejectTimeout             RejectReason = 4
	RejectUnsupported         RejectReason = 5
	RejectInvalidCommID       RejectReason = 6
	RejectInvalidCommInstance RejectReason = 7
	RejectInvalidServiceID    RejectReason = 8
	RejectInvalidTransport    RejectReason = 9
	RejectStaleConnection     RejectReason = 10
	RejectNoRDC               RejectReason = 11
	RejectInvalidGID          RejectReason = 12
	RejectInvalidLID          RejectReason = 13
	RejectInvalidSL           RejectReason = 14
	RejectInvalidTrafficClass RejectReason = 15
	RejectInvalidHopLimit     RejectReason = 16
	RejectInvalidPacketRate   RejectReason = 17
	RejectInvalidAltGID       RejectReason = 18
	RejectInvalidAltLID       RejectReason = 19
	RejectInvalidAltSL        RejectReason = 20
	RejectInvalidAltClass     RejectReason = 21
	RejectInvalidAltHopLimit  RejectReason = 22
	RejectInvalidAltRate      RejectReason = 23
	RejectCMRedirect          RejectReason = 24
	RejectPortRedirect        RejectReason = 25
	RejectInvalidMTU          RejectReason = 26
	RejectResponderResources  RejectReason = 27
	RejectConsumer            RejectReason = 28
	RejectInvalidRNRRetry     RejectReason = 29
	RejectDuplicateCommID     RejectReason = 30
	RejectInvalidClassVersion RejectReason = 31
	RejectInvalidFlowLabel    RejectReason = 32
	RejectInvalidAltFlowLabel RejectReason = 33
	RejectVendorOption        RejectReason = 35
)

// rejects has each reason's name and its sentence.
var rejects = map[RejectReason]struct{ name, words string }{
	RejectNoQP:                {"NO_QP", "the peer has no queue pair left"},
	RejectNoEEC:               {"NO_EEC", "the peer has no end-to-end context left"},
	RejectNoResources:         {"NO_RESOURCES", "the peer lacks resources other than queue pairs"},
	RejectTimeout:             {"TIMEOUT", "the peer gave up waiting for an answer"},
	RejectUnsupported:         {"UNSUPPORTED_REQUEST", "the peer does not support the request"},
	RejectInvalidCommID:       {"INVALID_COMM_ID", "the peer does not know the communication ID"},
	RejectInvalidCommInstance: {"INVALID_COMM_INSTANCE", "communication IDs, QPN and GUID do not belong together"},
	RejectInvalidServiceID:    {"INVALID_SERVICE_ID", "no listener for the service ID on the peer"},
	RejectInvalidTransport:    {"INVALID_TRANSPORT_TYPE", "the peer does not support the transport service type"},
	RejectStaleConnection:     {"STALE_CONNECTION", "the peer still holds an earlier connection of the same queue pair"},
	RejectNoRDC:               {"NO_RDC", "the reliable datagram channel does not exist"},
	RejectInvalidGID:          {"INVALID_GID", "the peer does not accept the GID of the primary path"},
	RejectInvalidLID:          {"INVALID_LID", "the peer does not accept the LID of the primary path"},
	RejectInvalidSL:           {"INVALID_SL", "the peer does not accept the service level of the primary path"},
	RejectInvalidTrafficClass: {"INVALID_TRAFFIC_CLASS", "the peer does not accept the traffic class of the primary path"},
	RejectInvalidHopLimit:     {"INVALID_HOP_LIMIT", "the peer does not accept the hop limit of the primary path"},
	RejectInvalidPacketRate:   {"INVALID_PACKET_RATE", "the peer does not accept the packet rate of the primary path"},
	RejectInvalidAltGID:       {"INVALID_ALT_GID", "the peer does not accept the GID of the alternate path"},
	RejectInvalidAltLID:       {"INVALID_ALT_LID", "the peer does not accept the LID of the alternate path"},
	RejectInvalidAltSL:        {"INVALID_ALT_SL", "the peer does not accept the service level of the alternate path"},
	RejectInvalidAltClass:     {"INVALID_ALT_TRAFFIC_CLASS", "the peer does not accept the traffic class of the alternate path"},
	RejectInvalidAltHopLimit:  {"INVALID_ALT_HOP_LIMIT", "the peer does not accept the hop limit of the alternate path"},
	RejectInvalidAltRate:      {"INVALID_ALT_PACKET_RATE", "the peer does not accept the packet rate of the alternate path"},
	RejectCMRedirect:          {"CM_REDIRECT", "the peer wants the request to go to another communication manager"},
	RejectPortRedirect:        {"PORT_REDIRECT", "the peer wants the connection to go to another port"},
	RejectInvalidMTU:          {"INVALID_MTU", "the peer does not accept the path MTU"},
	RejectResponderResources:  {"INSUFFICIENT_RESPONDER_RESOURCES", "the peer cannot serve as many READs and ATOMICs at a time"},
	RejectConsumer:            {"CONSUMER_REJECT", "the program on the peer rejected the connection"},
	RejectInvalidRNRRetry:     {"INVALID_RNR_RETRY", "the peer does not accept the RNR retry count"},
	RejectDuplicateCommID:     {"DUPLICATE_COMM_ID", "the communication ID is in use already"},
	RejectInvalidClassVersion: {"INVALID_CLASS_VERSION", "the peer does not know this version of the messages"},
	RejectInvalidFlowLabel:    {"INVALID_FLOW_LABEL", "the peer does not accept the flow label of the primary path"},
	RejectInvalidAltFlowLabel: {"INVALID_ALT_FLOW_LABEL", "the peer does not accept the flow label of the alternate path"},
	RejectVendorOption:        {"VENDOR_OPTION", "the peer does not support an option that is the vendor's own"},
}

// String returns the name.
func (r RejectReason) String() string {
	if row, ok := rejects[r]; ok {
		return row.name
	}
	return fmt.Sprintf("reject reason %d", uint16(r))
}

// Known reports whether the specification defines the reason.
func (r RejectReason) Known() bool {
	_, ok := rejects[r]
	return ok
}

// Words says the reason as a sentence without its stop.
func (r RejectReason) Words() string {
	if row, ok := rejects[r]; ok {
		return row.words
	}
	return fmt.Sprintf("the peer gave reason %d, which the specification does not define", uint16(r))
}
