package ucx

import "syscall"

// addDescriptor adds the worker's descriptor to the program's epoll instance.
func (w *UcpWorker) addDescriptor() error {
	if err := w.ctx.need(featureWakeup, "EnableWakeup"); err != nil {
		return err
	}
	fd, err := w.worker.Descriptor()
	if err != nil {
		return err
	}
	x := syscall.EpollEvent{Events: syscall.EPOLLIN, Fd: int32(fd)}
	if err := syscall.EpollCtl(int(w.params.eventFD), syscall.EPOLL_CTL_ADD, int(fd), &x); err != nil {
		return &UcxError{UCS_ERR_INVALID_PARAM, err}
	}
	return nil
}
