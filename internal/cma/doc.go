// Package cma makes connections by IP address: ids with their states, port
// spaces, address and route resolution, listeners and event channels, over the
// communication managers of a set of devices (annex A11).
package cma
