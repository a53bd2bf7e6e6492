package config_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/rehop/rehop/broker"
	"github.com/rehop/rehop/cmd/rehop/internal/config"
)

// Users, hosts, TLS and limits, valid and invalid.
func TestAccess(t *testing.T) {
	t.Parallel()
	file := parse(t, `
hosts: [rehop.example, '*.shop.example']
limits: {memory: 512MiB, disk-reserve: 1GiB, connections: 100, channels: 50}
listen:
  amqp: 0.0.0.0:5671
  tls: {cert: a.crt, key: a.key, client-ca: ca.crt, client-cert: require, for: [amqp, management]}
users:
  device: {}
  shop:
    password: secret
    permissions: {/: {write: '^orders$', read: '^shop'}}
    topic-permissions: {/: {orders: {write: '^shop\.', read: '.*'}}}
    max-connections: 10
    max-channels: 20
`)
	shop := config.User{Name: "shop", Password: "secret", Permissions: map[string]broker.Permission{"/": {Write: "^orders$", Read: "^shop"}},
		TopicPermissions: map[string]map[string]broker.TopicPermission{"/": {"orders": {Write: `^shop\.`, Read: ".*"}}}, Limits: broker.Limits{MaxConnections: 10, MaxChannels: 20}}
	if want := []config.User{{Name: "device"}, shop}; !reflect.DeepEqual(file.Users, want) {
		t.Errorf("got users %+v, want %+v", file.Users, want)
	}
	if want := (config.Limits{Memory: 512 << 20, DiskReserve: 1 << 30, Connections: 100, Channels: 50}); file.Limits != want {
		t.Errorf("got limits %+v, want %+v", file.Limits, want)
	}
	encryption := config.ListenTLS{Cert: "a.crt", Key: "a.key", ClientCA: "ca.crt", RequireClientCert: true, For: []string{"amqp", "management"}}
	if !reflect.DeepEqual(file.Listen.TLS, encryption) || !encryption.Used("amqp") || encryption.Used("http") {
		t.Errorf("got TLS %+v, want %+v", file.Listen.TLS, encryption)
	}
	if want := []string{"rehop.example", "*.shop.example"}; !reflect.DeepEqual(file.Hosts, want) {
		t.Errorf("got hosts %q, want %q", file.Hosts, want)
	}
	if all := parse(t, "listen: {tls: {cert: a, key: b}}"); !all.Listen.TLS.Used("http") || parse(t, "flows: {}").Listen.TLS.Used("http") {
		t.Error("TLS is for all listeners if it is given, and otherwise for none")
	}
	if off := parse(t, "limits: {disk-reserve: 0}"); off.Limits.DiskReserve >= 0 {
		t.Errorf("got a reserve of %d, want none", off.Limits.DiskReserve)
	}
	for text, want := range map[string]string{
		"hosts: ['http://a']":                                            "is not the name of a host",
		"limits: {memory: 1MiB}":                                         "memory must be at least",
		"limits: {connections: 0}":                                       "a whole number from 1",
		"limits: {channels: 70000}":                                      "channels must be at most 65535",
		"{broker: 'amqp://h/', limits: {channels: 7}}":                   "limits is for the embedded broker",
		"listen: {tls: {cert: a}}":                                       "needs cert and key",
		"listen: {tls: {cert: a, key: b, client-cert: verify}}":          "client-cert needs client-ca",
		"listen: {tls: {cert: a, key: b, client-cert: maybe}}":           `"maybe" must be one of verify, require`,
		"listen: {tls: {cert: a, key: b, for: [smtp]}}":                  `"smtp" must be one of amqp, management, http`,
		"users: {a: {password: b, permissions: {/: {read: '('}}}}":       "must be a regular expression",
		"users: {a: {password: b, topic-permissions: {/: {x: {k: 1}}}}}": "unknown key \"k\"",
		"users: {rehop-internal: a}":                                     "is for the flows of this process",
		"users: {a: {}}":                                                 "has no password",
	} {
		if _, err := config.Parse("rehop.yaml", []byte(text), env()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
}
