// Package containers runs unmodified programs in containers that softrdma's CDI devices give an RDMA
// device. There is no guest: podman runs the containers, in a network of their own.
package containers
