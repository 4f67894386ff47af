// Package target serves block devices to hosts by NVMe over Fabrics on the RDMA transport. Linux's
// nvme-rdma attaches them:
//
//	t, err := target.New(target.Config{})
//	disk, err := block.OpenFile("disk.img", block.FileConfig{Size: 1 << 30})
//	sub := &controller.Subsystem{NQN: "nqn.2024-01.org.example:disk"}
//	err = t.AddSubsystem(sub)
//	err = t.AddNamespace(sub, 1, disk, false)
//	err = t.Listen("192.0.2.1:4420", rdmacm.ListenConfig{})
//
//	nvme connect -t rdma -a 192.0.2.1 -s 4420 -n nqn.2024-01.org.example:disk
//
// The package stands on the public packages rdmacm and verbs only. It owns the connections, the
// registered memory and the moves of data. What commands mean is in package controller, and what
// stores the blocks in package block.
//
// # Data
//
// Each connection is a queue. The target posts as many receives as the host may have commands. The data
// of a command moves once: by one RDMA READ from the host's memory, or by one RDMA WRITE to it, or it
// is in the capsule. The backend reads to and writes from the memory that the device uses. The response
// follows the data, and invalidates the host's key if the host asks for that.
//
// # Memory
//
// Buffers for data belong to the device and are shared by its queues. A command holds a buffer until its
// response has completed. No peer has a right to them. Config.Buffers bounds how many the commands of one
// namespace hold.
package target
