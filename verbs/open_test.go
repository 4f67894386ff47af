package verbs_test

import (
	"context"
	"errors"
	"reflect"
	"testing"

	"softrdma/verbs"
)

// Every setting of a typed configuration has the name, the type and the effect of a Config's.
func TestTypedConfigsHoldTheSettingsOfConfig(t *testing.T) {
	for _, c := range verbs.TypedConfigs {
		typed := reflect.ValueOf(c).Elem()
		for _, f := range reflect.VisibleFields(typed.Type()) {
			if f.Name == "Stack" {
				continue
			}
			typed.SetZero()
			v := typed.FieldByIndex(f.Index)
			switch v.Kind() {
			case reflect.Slice:
				v.Set(reflect.MakeSlice(v.Type(), 1, 1))
			case reflect.Pointer:
				v.Set(reflect.New(v.Type().Elem()))
			case reflect.Func:
				v.Set(reflect.MakeFunc(v.Type(), nil))
			case reflect.Bool:
				v.SetBool(true)
			case reflect.String:
				v.SetString("x")
			default:
				v.Set(reflect.ValueOf(1).Convert(v.Type()))
			}
			config := reflect.ValueOf(verbs.ConfigOf(c)).Elem()
			for _, g := range reflect.VisibleFields(config.Type()) {
				if set := !config.FieldByIndex(g.Index).IsZero(); set != (g.Name == f.Name) {
					t.Errorf("%v with %s: Config.%s is set: %v", typed.Type(), f.Name, g.Name, set)
				}
			}
		}
	}
}

// What the functions of the kinds open is what Open opens by a prefix, in the stack of the configuration.
func TestTypedOpenChoosesTheProtocolAndTheStack(t *testing.T) {
	const ip = "127.0.0.98"
	stack := verbs.NewStack()
	for want, open := range map[verbs.Protocol]func(ctx context.Context) (*verbs.Device, error){
		verbs.RoCE: func(ctx context.Context) (*verbs.Device, error) {
			return verbs.OpenRoCE(ctx, ip, verbs.RoCEConfig{Stack: stack, SameHost: verbs.SameHostOff})
		},
		verbs.IWARP: func(ctx context.Context) (*verbs.Device, error) {
			return verbs.OpenIWARP(ctx, ip, verbs.IWARPConfig{Stack: stack})
		},
	} {
		dev, err := open(t.Context())
		if err != nil {
			t.Fatalf("%v: %v", want, err)
		}
		if dev.Protocol() != want || dev.Addr().Addr().String() != ip {
			t.Errorf("opened %v on %v, expected %v on %s", dev.Protocol(), dev.Addr(), want, ip)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if err := dev.Close(); err != nil {
			t.Error(err)
		}
		if d, err := open(ended); !errors.Is(err, context.Canceled) {
			t.Errorf("%v with an ended context: found %v, %v", want, d, err)
		}
	}
}
