package measure

import "fmt"

// A Rate is how fast messages of one size were moved. It counts payload only.
type Rate struct {
	Size       int     `json:"bytes"`
	Iterations int64   `json:"iterations"`
	Peak       float64 `json:"bw_peak_gbit_per_s"`
	Average    float64 `json:"bw_average_gbit_per_s"`
	MiB        float64 `json:"bw_average_mib_per_s"`
	PerSecond  float64 `json:"messages_per_s"`
}

// Add adds what one end has moved. Peak is in bytes per second.
func (r *Rate) Add(bytes int64, seconds, peak float64) {
	if seconds <= 0 {
		return
	}
	r.Peak += peak * 8e-9
	r.Average += float64(bytes) / seconds * 8e-9
	r.MiB += float64(bytes) / seconds / (1 << 20)
	r.PerSecond += float64(bytes) / float64(r.Size) / seconds
}

var RateHeader = fmt.Sprintf(" %-10s %-12s %17s %20s %19s %14s",
	"#bytes", "#iterations", "BW peak[Gb/sec]", "BW average[Gb/sec]", "BW average[MiB/s]", "MsgRate[Mpps]")

// String returns the rate as a row below RateHeader.
func (r Rate) String() string {
	return fmt.Sprintf(" %-10d %-12d %17.3f %20.3f %19.2f %14.6f", r.Size, r.Iterations, r.Peak, r.Average, r.MiB, r.PerSecond/1e6)
}
