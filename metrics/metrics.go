// Package metrics shows the RDMA devices of a program to Prometheus: bytes, packets, refusals by their
// named reasons, retransmissions, congestion, objects, and round trips as native histograms.
//
// A program that has an HTTP server mounts a handler:
//
//	http.Handle("/metrics", metrics.Handler())
//
// The devices may be opened by the program, or by packages rdmacm, rdmanet, msg and rpc for it. Without
// arguments the handler shows all devices that are open in the process when it is asked.
//
// A program that has a registry of its own registers a collector:
//
//	registry.MustRegister(metrics.NewCollector())
//
// Devices do not become slower by this: they count anyway. Round trips and windows are sampled for as
// long as metrics are read. Queue pairs have no metrics of their own, so the number of time series does
// not grow with connections.
package metrics

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"softrdma/internal/exporter"
	"softrdma/verbs"
)

// NewCollector returns a collector of the devices, or without any of all that are open in the process
// when it is asked. A device that is closed has no metrics.
func NewCollector(devices ...*verbs.Device) prometheus.Collector { return exporter.New(devices...) }

// Handler returns a handler of a registry that has only NewCollector of the devices.
func Handler(devices ...*verbs.Device) http.Handler {
	r := prometheus.NewRegistry()
	r.MustRegister(NewCollector(devices...))
	return promhttp.HandlerFor(r, promhttp.HandlerOpts{})
}
