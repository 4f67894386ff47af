//go:build kubernetes

package kubernetes

import (
	"context"
	"fmt"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// A service answers kubelet's calls about one resource.
type service struct {
	v1beta1.UnimplementedDevicePluginServer
	ids    []string
	answer *v1beta1.ContainerAllocateResponse // for a container, however many devices it asks for
	health *health
	left   chan struct{} // capacity 1: kubelet does not watch any more
}

// GetDevicePluginOptions says that nothing is to be done before a container starts, and that all
// devices are alike.
func (s *service) GetDevicePluginOptions(context.Context, *v1beta1.Empty) (*v1beta1.DevicePluginOptions, error) {
	return &v1beta1.DevicePluginOptions{}, nil
}

// ListAndWatch sends the devices, and again when their health changes.
func (s *service) ListAndWatch(_ *v1beta1.Empty, stream v1beta1.DevicePlugin_ListAndWatchServer) error {
	defer func() {
		select {
		case s.left <- struct{}{}:
		default:
		}
	}()
	for {
		why, changed := s.health.get()
		if err := stream.Send(s.list(why)); err != nil {
			return err
		}
		select {
		case <-changed:
		case <-stream.Context().Done():
			return stream.Context().Err()
		}
	}
}

// list returns the devices, which are healthy unless there is a reason why not.
func (s *service) list(why error) *v1beta1.ListAndWatchResponse {
	state := v1beta1.Healthy
	if why != nil {
		state = v1beta1.Unhealthy
	}
	devices := make([]*v1beta1.Device, len(s.ids))
	for i, id := range s.ids {
		devices[i] = &v1beta1.Device{ID: id, Health: state}
	}
	return &v1beta1.ListAndWatchResponse{Devices: devices}
}

// Allocate says what containers get.
func (s *service) Allocate(_ context.Context, r *v1beta1.AllocateRequest) (*v1beta1.AllocateResponse, error) {
	if why, _ := s.health.get(); why != nil {
		return nil, status.Errorf(codes.Unavailable, "the devices are unhealthy: %v", why)
	}
	answer := &v1beta1.AllocateResponse{}
	for _, c := range r.GetContainerRequests() {
		if err := s.check(c.GetDevicesIds()); err != nil {
			return nil, err
		}
		answer.ContainerResponses = append(answer.ContainerResponses, s.answer)
	}
	return answer, nil
}

// PreStartContainer does nothing. Kubelet calls it only if the options say so.
func (s *service) PreStartContainer(_ context.Context, r *v1beta1.PreStartContainerRequest) (*v1beta1.PreStartContainerResponse, error) {
	if err := s.check(r.GetDevicesIds()); err != nil {
		return nil, err
	}
	return &v1beta1.PreStartContainerResponse{}, nil
}

// check returns an error if a container cannot get these devices.
func (s *service) check(ids []string) error {
	if len(ids) == 0 {
		return status.Error(codes.InvalidArgument, "expected at least one device for each container, found none")
	}
	for i, id := range ids {
		if !slices.Contains(s.ids, id) {
			return status.Errorf(codes.InvalidArgument, "expected devices from %s to %s, found %.80q", s.ids[0], s.ids[len(s.ids)-1], id)
		}
		if slices.Contains(ids[:i], id) {
			return status.Errorf(codes.InvalidArgument, "expected each device once, found %s twice", id)
		}
	}
	return nil
}

// ids returns the names of the devices of the resource. They are all alike.
func (r resource) ids() []string {
	ids := make([]string, r.count)
	for i := range ids {
		ids[i] = fmt.Sprintf("softrdma-%d", i)
	}
	return ids
}
