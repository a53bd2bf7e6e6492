package admin

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rehop/rehop/topology"
)

// chart is what Doctor has read from a broker.
type chart struct {
	live        topology.Live
	version     release
	overview    apiOverview
	nodes       []apiNode
	flags       []apiFlag
	vhost       apiVhost
	queues      map[string]apiQueue
	users       []apiUser
	permissions []apiPermission
	connections []apiConnection
	channels    []apiChannel
	consumers   []apiConsumer
	whoami      apiUser
	features    []apiFeature                    // deprecated ones that the broker knows
	used        []apiFeature                    // those of them that are in use
	shared      map[string]bool                 // queues that other programs declare, too
	roles       map[string]role                 // by queue
	letters     map[string][]topology.LiveQueue // queues that dead-letter to a queue, by that queue
}

type apiOverview struct {
	Cluster string `json:"cluster_name"`
	Product string `json:"product_name"`
	Erlang  string `json:"erlang_version"`
	Churn   perhaps[struct {
		Connections apiRate `json:"connection_created_details"`
		Channels    apiRate `json:"channel_created_details"`
		Queues      apiRate `json:"queue_declared_details"`
	}] `json:"churn_rates"`
}

type apiName struct {
	Name string `json:"name"`
}

type apiRate struct {
	Rate float64 `json:"rate"`
}

type apiNode struct {
	Name       string   `json:"name"`
	Running    bool     `json:"running"`
	MemoryFull bool     `json:"mem_alarm"`
	DiskFull   bool     `json:"disk_free_alarm"`
	Type       string   `json:"type"` // disc or ram
	Partitions []string `json:"partitions"`
}

type apiFlag struct {
	Name      string `json:"name"`
	State     string `json:"state"`
	Stability string `json:"stability"`
}

type apiVhost struct {
	Stats perhaps[struct {
		Dropped  int `json:"drop_unroutable"`
		Returned int `json:"return_unroutable"`
	}] `json:"message_stats"`
}

type apiUser struct {
	Name string  `json:"name"`
	Tags apiTags `json:"tags"`
}

// apiTags are a list, and before RabbitMQ 3.9 a text with commas.
type apiTags []string

func (t *apiTags) UnmarshalJSON(text []byte) error {
	s := strings.Trim(string(text), `[]"`)
	*t = strings.FieldsFunc(s, func(r rune) bool { return strings.ContainsRune(`", `, r) })
	return nil
}

func (u apiUser) has(tags ...string) bool {
	return slices.ContainsFunc(tags, func(tag string) bool { return slices.Contains(u.Tags, tag) })
}

type apiPermission struct {
	User      string `json:"user"`
	Vhost     string `json:"vhost"`
	Configure string `json:"configure"`
}

type apiConnection struct {
	Name   string `json:"name"`
	User   string `json:"user"`
	Peer   string `json:"peer_host"`
	Client perhaps[struct {
		Name string `json:"connection_name"`
	}] `json:"client_properties"`
}

type apiChannel struct {
	Name   string `json:"name"`
	Shared *int   `json:"global_prefetch_count"` // nil: the API does not show it, as from RabbitMQ 4.0 on
}

// apiFeature is a deprecated feature.
type apiFeature struct {
	Name  string `json:"name"`
	State string `json:"state"` // permitted or denied; "" before RabbitMQ 4.3
}

type apiConsumer struct {
	Tag      string                 `json:"consumer_tag"`
	Acks     bool                   `json:"ack_required"`
	Prefetch int                    `json:"prefetch_count"`
	Queue    perhaps[apiName]       `json:"queue"`
	Channel  perhaps[apiName]       `json:"channel_details"`
	Timeout  consumerTimeout        `json:"consumer_timeout"` // of its queue, or of the node; from RabbitMQ 4.0 on
	Args     perhaps[topology.Args] `json:"arguments"`
}

// consumerTimeout is a number of milliseconds. Anything else is no timeout.
type consumerTimeout time.Duration

func (t *consumerTimeout) UnmarshalJSON(text []byte) error {
	if n, err := strconv.ParseInt(string(text), 10, 64); err == nil {
		*t = consumerTimeout(time.Duration(n) * time.Millisecond)
	}
	return nil
}

// read reads everything. What the user may not see, or what the broker does not have, is left out.
func (c *checkup) read(ctx context.Context) (err error) {
	m := c.admin.management
	if c.chart.live, err = m.live(ctx); err != nil {
		return err
	}
	c.chart.version = releaseOf(c.chart.live.Version)
	if c.chart.queues, err = c.vitals(ctx); err != nil {
		return err
	}
	for _, part := range []struct {
		what, path string
		out        any
	}{
		{"the broker", "/api/overview", &c.chart.overview},
		{"the user", "/api/whoami", &c.chart.whoami},
		{"nodes and alarms", "/api/nodes", &c.chart.nodes},
		{"feature flags", "/api/feature-flags", &c.chart.flags},
		{"the virtual host", "/api/vhosts/%s", &c.chart.vhost},
		{"users", "/api/users", &c.chart.users},
		{"permissions", "/api/permissions", &c.chart.permissions},
		{"connections", "/api/vhosts/%s/connections", &c.chart.connections},
		{"channels", "/api/vhosts/%s/channels", &c.chart.channels},
		{"consumers", "/api/consumers/%s", &c.chart.consumers},
		{"deprecated features", "/api/deprecated-features", &c.chart.features},
		{"the use of deprecated features", "/api/deprecated-features/used", &c.chart.used},
	} {
		err := m.get(ctx, part.path, part.out)
		switch {
		case missing(err):
			// This broker does not have it.
		case refused(err):
			c.find("doctor.blind", c.broker(), "give the user the tag monitoring; for users and permissions, administrator", "%s cannot be seen: %v", part.what, err)
		case err != nil:
			return err
		}
	}
	if len(c.chart.whoami.Tags) > 0 && !c.chart.whoami.has("administrator", "monitoring") {
		c.find("doctor.blind", topology.Object{Kind: "user", Name: c.chart.whoami.Name}, "give the user the tag monitoring",
			"it sees only its own connections, channels and consumers")
	}
	return nil
}

// vitals are figures of queues that topology.Live does not have.
func (c *checkup) vitals(ctx context.Context) (map[string]apiQueue, error) {
	var all []apiQueue
	if err := c.admin.management.get(ctx, "/api/queues/%s?columns=name,members,online,messages_dlx,messages_ready", &all); err != nil {
		return nil, err
	}
	byName := make(map[string]apiQueue, len(all))
	for _, q := range all {
		byName[q.Name] = q
	}
	return byName, nil
}

// release is a version, as in 3.10.8. One that cannot be read is the zero release.
type release struct{ major, minor int }

func releaseOf(text string) release {
	var r release
	if n, _ := fmt.Sscanf(text, "%d.%d", &r.major, &r.minor); n < 2 {
		return release{}
	}
	return r
}

// before and atLeast are both false if the version is not known.
func (r release) before(major, minor int) bool {
	return r != release{} && !r.atLeast(major, minor)
}

func (r release) atLeast(major, minor int) bool {
	return r.major > major || r.major == major && r.minor >= minor
}

func (r release) String() string { return fmt.Sprintf("%d.%d", r.major, r.minor) }
