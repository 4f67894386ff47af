// Package userlands runs softrdma exec in the user lands of other releases of Debian: an older and a
// newer C library, and their rdma-core. There is no guest: a user land is a directory with its own
// mounts and network.
package userlands
