package rabbitmq

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/rehop/rehop/tools/services/internal/ports"
)

// config is the rabbitmq.conf of a node. It is written afresh at every start, so that it fits the ports.
func (n *Node) config(version string) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	port := n.ports()
	line("listeners.tcp.local = %s:%d", n.host(), port.AMQP)
	if n.apart != 0 {
		line("loopback_users = none")
	}
	line("management.tcp.ip = %s", n.host())
	line("management.tcp.port = %d", port.Management)
	line("prometheus.tcp.ip = %s", n.host())
	line("prometheus.tcp.port = %d", port.Prometheus)
	line("log.file.level = info")
	line("# Full disks and little memory are no concern of the tests.")
	line("disk_free_limit.absolute = 50MB")
	watermark := "0.4"
	if n.clustered() {
		watermark = "0.2"
	}
	line("vm_memory_high_watermark.relative = %s", watermark)
	line("# A restarted node reads its write-ahead log again: keep it small.")
	line("raft.wal_max_size_bytes = 67108864")
	if !before(version, 4, 3) {
		line("# As RabbitMQ ships it. Debian has patched the default.")
		line("deprecated_features.permit.transient_nonexcl_queues = false")
	}
	if !n.clustered() {
		certs := n.dir.File("certs")
		line("listeners.ssl.local = 127.0.0.1:%d", port.AMQPS)
		line("ssl_options.cacertfile = %s/ca.pem", certs)
		line("ssl_options.certfile = %s/server.pem", certs)
		line("ssl_options.keyfile = %s/server.key", certs)
		line("ssl_options.verify = verify_peer")
		line("ssl_options.fail_if_no_peer_cert = false")
		line("ssl_options.versions.1 = tlsv1.3")
		line("ssl_options.versions.2 = tlsv1.2")
		line("auth_mechanisms.1 = PLAIN")
		line("auth_mechanisms.2 = AMQPLAIN")
		line("auth_mechanisms.3 = EXTERNAL")
		line("ssl_cert_login_from = common_name")
		line("load_definitions = %s", n.file("definitions.json"))
		return b.String()
	}
	// On their first start the nodes find each other by this list, under a lock that lets exactly one of them found the cluster. So
	// they can start all at a time, and rabbitmqctl join_cluster, which is slow, is not needed.
	line("cluster_name = rehop")
	line("cluster_partition_handling = pause_minority")
	line("cluster_formation.peer_discovery_backend = classic_config")
	line("cluster_formation.target_cluster_size_hint = %d", len(n.service.Nodes))
	if before(version, 3, 13) {
		line("# The founder, while it holds the lock, asks its peers for 5 s whether one of them already has a cluster.")
		line("# Later versions do not lock that long, and need the time.")
		line("cluster_formation.discovery_retry_limit = 1")
		line("cluster_formation.discovery_retry_interval = 100")
	}
	for i, peer := range n.service.Nodes {
		line("cluster_formation.classic_config.nodes.%d = %s", i+1, peer.erlangName())
	}
	return b.String()
}

// plugins are those that a node enables, as an Erlang term.
func (n *Node) plugins() string {
	if n.clustered() {
		return "[rabbitmq_management,rabbitmq_prometheus].\n"
	}
	return "[rabbitmq_management,rabbitmq_prometheus,rabbitmq_auth_mechanism_ssl].\n"
}

// advanced has how long (ms) at-least-once dead lettering waits for confirms of its target queues before it publishes again: by
// default 3 minutes.
const advanced = "[{rabbit, [{dead_letter_worker_publisher_confirm_timeout, 15000}]}].\n"

// definitions are the users that the single node creates before it accepts a client. rehop-external has no password and can log in
// only by its certificate. With definitions to load, RabbitMQ does not create guest and / by itself.
func definitions() string {
	// RabbitMQ's hash: a salt of 4 bytes, then SHA-256 of salt and password.
	sum := sha256.Sum256([]byte("salt" + "guest"))
	hash := base64.StdEncoding.EncodeToString(append([]byte("salt"), sum[:]...))
	return `{
  "vhosts": [{"name": "/"}],
  "users": [
    {"name": "guest", "password_hash": "` + hash + `", "hashing_algorithm": "rabbit_password_hashing_sha256", "tags": "administrator"},
    {"name": "rehop-external", "password_hash": "", "hashing_algorithm": "rabbit_password_hashing_sha256", "tags": ""}
  ],
  "permissions": [
    {"user": "guest", "vhost": "/", "configure": ".*", "write": ".*", "read": ".*"},
    {"user": "rehop-external", "vhost": "/", "configure": ".*", "write": ".*", "read": ".*"}
  ]
}
`
}

// environment is what the server and rabbitmqctl need to know. Every path that defaults to something under /etc/rabbitmq or
// /var/lib/rabbitmq is given, even where the file does not exist.
func (n *Node) environment() []string {
	// Erlang's distribution listens on all interfaces by default.
	only := "-kernel inet_dist_use_interface {" + strings.ReplaceAll(n.host(), ".", ",") + "}"
	server := only
	if n.clustered() {
		// The nodes notice within some 10 s (not 60) that a peer hangs. A peer whose process died they notice at once.
		server += " -kernel net_ticktime 10"
	}
	return []string{
		fmt.Sprint("ERL_EPMD_PORT=", n.epmd.port()),
		"ERL_EPMD_ADDRESS=" + n.host(),
		"ERL_CRASH_DUMP=" + n.file("log/erl_crash.dump"),
		"RABBITMQ_NODENAME=" + n.erlangName(),
		fmt.Sprint("RABBITMQ_USE_LONGNAME=", n.apart != 0),
		fmt.Sprint("RABBITMQ_DIST_PORT=", n.ports().Dist),
		"RABBITMQ_CONF_ENV_FILE=" + n.file("rabbitmq-env.conf"),
		"RABBITMQ_CONFIG_FILE=" + n.file("rabbitmq.conf"),
		"RABBITMQ_CONFIG_FILES=" + n.file("conf.d"),
		"RABBITMQ_ADVANCED_CONFIG_FILE=" + n.file("advanced.config"),
		"RABBITMQ_ENABLED_PLUGINS_FILE=" + n.file("enabled_plugins"),
		"RABBITMQ_GENERATED_CONFIG_DIR=" + n.file("generated"),
		"RABBITMQ_MNESIA_BASE=" + n.file("data"),
		"RABBITMQ_MNESIA_DIR=" + n.file("data/node"),
		"RABBITMQ_PLUGINS_EXPAND_DIR=" + n.file("data/plugins-expand"),
		"RABBITMQ_FEATURE_FLAGS_FILE=" + n.file("data/feature_flags"),
		"RABBITMQ_LOG_BASE=" + n.file("log"),
		"RABBITMQ_PID_FILE=" + n.file("beam.pid"),
		"RABBITMQ_CTL_ERL_ARGS=" + only,
		fmt.Sprint("RABBITMQ_CTL_DIST_PORT_MIN=", n.block().At(ports.CtlFirst)),
		fmt.Sprint("RABBITMQ_CTL_DIST_PORT_MAX=", n.block().At(ports.CtlLast)),
		"RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=" + server,
	}
}
