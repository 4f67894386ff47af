package cli

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/spf13/cobra"

	"softrdma/internal/exporter"
	"softrdma/internal/rundir"
)

// MetricsFlag names the flag with which a command serves metrics.
const MetricsFlag = "metrics"

// exported are the devices of this process, and served is the registry of --metrics with them.
var (
	exported = exporter.New()
	served   = prometheus.NewRegistry()
)

// ExportMetrics adds a collector of something other than devices to the metrics. The returned function
// removes it.
func ExportMetrics(c prometheus.Collector) (end func()) {
	served.MustRegister(c)
	return func() { served.Unregister(c) }
}

// ExportPrograms adds to the metrics of devices what programs that have them in their own process have
// counted. The returned function ends this.
func ExportPrograms(p exporter.Programs) (end func()) {
	exported.SetPrograms(p)
	return func() { exported.SetPrograms(nil) }
}

// AddMetricsFlag adds --metrics to a command, whose RunE is set. The command serves metrics while it runs.
func AddMetricsFlag(cmd *cobra.Command) {
	cmd.Flags().String(MetricsFlag, "", "serve metrics for Prometheus on `ADDRESS`: PORT of the loopback address, HOST:PORT, or the path of a Unix socket")
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		end, err := serveMetrics(FlagText(cmd, MetricsFlag))
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, end()) }()
		return run(cmd, args)
	}
}

// serveMetrics serves the metrics of the process until end is called.
func serveMetrics(address string) (end func() error, err error) {
	if address == "" {
		return func() error { return nil }, nil
	}
	l, err := listenMetrics(address)
	if err != nil {
		return nil, err
	}
	all := []prometheus.Collector{exported, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})}
	served.MustRegister(all...)
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(served, promhttp.HandlerOpts{MaxRequestsInFlight: 4}))
	s := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 5 * time.Minute}
	go func() { _ = s.Serve(l) }()
	return func() error {
		for _, c := range all {
			served.Unregister(c)
		}
		return s.Close()
	}, nil
}

// listenMetrics listens on the address of --metrics.
func listenMetrics(address string) (net.Listener, error) {
	network, at := metricsAddress(address)
	if network == "unix" {
		if err := rundir.RemoveDead(at); err != nil {
			return nil, UsageErrorf("--%s %s: %w", MetricsFlag, address, err)
		}
	}
	l, err := (&net.ListenConfig{}).Listen(context.Background(), network, at)
	if err != nil {
		return nil, UsageErrorf("--%s: expected PORT, HOST:PORT or the path of a Unix socket: %w", MetricsFlag, err)
	}
	if network == "unix" {
		if err := os.Chmod(at, 0o600); err != nil {
			return nil, errors.Join(err, l.Close())
		}
	}
	return l, nil
}

// metricsAddress returns the network and the address to listen on. Without a host it is the loopback
// address: other hosts see metrics only if the user names an address that they reach.
func metricsAddress(s string) (network, at string) {
	if strings.Contains(s, "/") {
		return "unix", s
	}
	host, port, err := net.SplitHostPort(s)
	switch {
	case err != nil && !strings.Contains(s, ":"):
		host, port = "127.0.0.1", s
	case err != nil:
		return "tcp", s // Listen says what is wrong
	case host == "":
		host = "127.0.0.1"
	}
	return "tcp", net.JoinHostPort(host, port)
}
