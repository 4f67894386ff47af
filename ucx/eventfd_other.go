//go:build !linux

package ucx

import "errors"

func (w *UcpWorker) addDescriptor() error {
	return &UcxError{UCS_ERR_UNSUPPORTED, errors.New("SetEventFD needs Linux's epoll")}
}
