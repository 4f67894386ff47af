// Package ninep serves a directory by 9P2000.L over RDMA, as Linux's 9p file system mounts it with
// trans=rdma. The protocol is executed by github.com/hugelgupf/p9. Each message is one SEND.
//
// Nothing outside of the directory can be reached: every access goes through an os.Root, so neither
// ".." nor a symbolic link leaves it. Files are accessed as the user who runs the server, and
// not as the user that a client names. Locks hold among clients, not with programs of the server's system. Device files and
// extended attributes are not supported, and no client learns who has a lock.
package ninep
