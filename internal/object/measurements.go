package object

import "time"

// Measurements are what a reliable connection has counted and measured. Counters begin with the
// connection, and begin again after their largest value, so tools use differences.
type Measurements struct {
	Acknowledged  uint32        `json:"acknowledged,omitempty"`       // sequence number before which the peer has acknowledged all packets, also those of READ responses
	Bytes         uint32        `json:"acknowledged_bytes,omitempty"` // of acknowledged requests: payload, and 64 for the headers of each packet
	Expected      uint32        `json:"expected_psn,omitempty"`       // ePSN, of the peer's next request: 24 bits
	InFlight      uint32        `json:"in_flight,omitempty"`          // PSNs that were sent and are not acknowledged
	RoundTrip     time.Duration `json:"round_trip_ns,omitempty"`      // the latest, 0 if there was none
	Window        int           `json:"window,omitempty"`             // bytes that may be in flight, unless the path is lossless
	Lossless      bool          `json:"lossless,omitempty"`           // the path loses nothing, as memory
	Retransmitted uint32        `json:"retransmissions,omitempty"`    // decisions to send packets again
	Retries       uint8         `json:"retries,omitempty"`            // of them in a row without progress
	RNRRetries    uint8         `json:"rnr_retries,omitempty"`        // RNR NAKs in a row without progress
	RNRWait       bool          `json:"rnr_wait,omitempty"`           // waits because the peer had no receive
}

// A Sample is what a device has measured of late.
type Sample struct {
	Connections []Connection    `json:"connections"`
	Latencies   []time.Duration `json:"latencies_ns"` // from doorbells of send requests to their completions
}

// A Connection is a queue pair with what it has measured on its path.
type Connection struct {
	QPN uint32 `json:"qpn"`
	Measurements
}
