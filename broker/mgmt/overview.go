package mgmt

import (
	"encoding/json"
	"os"
	"runtime"
	"slices"
	"strconv"
	"time"

	"github.com/rehop/rehop/broker/internal/exchange"
	"github.com/rehop/rehop/broker/internal/node"
)

func (c *call) overview() (any, error) {
	vhosts := c.visible()
	now, rates := c.sum(vhosts)
	queues, exchanges, consumers := 0, 0, 0
	for _, v := range vhosts {
		exchanges += len(v.Exchanges())
		for _, q := range v.Queues() {
			queues++
			consumers += len(q.Status().Consumers)
		}
	}
	connections := c.visibleConnections()
	channels := 0
	for _, conn := range connections {
		channels += len(conn.Channels())
	}
	totals := object{}
	now.messages(totals, rates)
	churn := figuresOfChurn(c.node.Churn())
	o := object{
		"management_version": c.node.Config.Version, "rabbitmq_version": c.node.Config.Version, "product_name": "rehop", "product_version": c.node.Config.Version,
		"erlang_version": "none", "erlang_full_version": "none, " + runtime.Version(), "cluster_name": printable(c.node.ClusterName()), "node": c.node.Config.Name,
		"rates_mode": "basic", "disable_stats": false, "enable_queue_totals": false, "statistics_db_event_queue": 0,
		"exchange_types": exchangeTypes(), "message_stats": now.allStats(rates), "queue_totals": totals,
		"churn_rates":   churn.churnRates(c.rates.of(c.node, churn)),
		"object_totals": object{"queues": queues, "exchanges": exchanges, "connections": len(connections), "channels": channels, "consumers": consumers},
	}
	o["listeners"], o["contexts"] = c.listeners()
	if c.since(node.RabbitMQ40) {
		o["cluster_tags"], o["node_tags"], o["default_queue_type"], o["is_op_policy_updating_enabled"] = object{}, object{}, defaultQueueType, true
	}
	if c.since(node.RabbitMQ43) {
		o["crypto_lib_version"], o["require_definition_json_extension"] = "none, "+runtime.Version(), false
	}
	return o, nil
}

func (c *call) clusterName() (any, error) { return object{"name": c.node.ClusterName()}, nil }

func (c *call) putClusterName() (any, error) {
	f := c.fields(maxBody, "name")
	name, ok := f.values["name"].(string)
	if !ok {
		f.fail([]any{"not_string", "name"})
	}
	if f.err != nil {
		return nil, f.err
	}
	value, err := json.Marshal(name)
	if err == nil {
		_, err = c.node.PutGlobalParameter("cluster_name", value)
	}
	return done, err
}

// none lists what this broker does not have, so that tools that request everything get an answer.
func (c *call) none() (any, error) { return list{}, nil }

func exchangeTypes() list {
	var all list
	for _, kind := range []exchange.Kind{exchange.Direct, exchange.Fanout, exchange.Headers, exchange.Topic} {
		all = append(all, object{"name": kind, "description": "AMQP " + string(kind) + " exchange, as per the AMQP specification", "enabled": true})
	}
	return all
}

func (c *call) nodes() (any, error) { return list{c.nodeObject()}, nil }

func (c *call) oneNode() (any, error) {
	if c.path("node") != c.node.Config.Name {
		return nil, notFound()
	}
	return c.nodeObject(), nil
}

func (c *call) nodeObject() object {
	raised := c.node.Alarms()
	used, limit := c.node.Memory()
	_, contexts := c.listeners()
	o := object{
		"name": c.node.Config.Name, "type": "disc", "running": true, "os_pid": strconv.Itoa(os.Getpid()), "uptime": time.Since(c.node.Began()).Milliseconds(),
		"processors": runtime.NumCPU(), "run_queue": 0, "proc_used": runtime.NumGoroutine(), "sockets_used": len(c.node.Connections()),
		"mem_used": used, "mem_limit": limit, "mem_alarm": slices.Contains(raised, node.MemoryAlarm),
		"disk_free_limit": c.node.DiskReserve(), "disk_free_alarm": slices.Contains(raised, node.DiskAlarm) || slices.Contains(raised, node.FailedAlarm),
		"rates_mode": "basic", "exchange_types": exchangeTypes(), "auth_mechanisms": mechanisms(), "applications": list{}, "contexts": contexts,
		"partitions": []string{}, "cluster_links": list{}, "enabled_plugins": []string{"rabbitmq_management", "rabbitmq_prometheus"},
	}
	if free, ok := c.node.DiskFree(); ok {
		o["disk_free"] = free
	}
	if open, limit, ok := openFiles(); ok {
		o["fd_used"], o["fd_total"], o["sockets_total"] = open, limit, limit
	}
	return o
}

func mechanisms() list {
	return list{
		{"name": "PLAIN", "description": "SASL PLAIN authentication mechanism", "enabled": true},
		{"name": "AMQPLAIN", "description": "QPid AMQPLAIN mechanism", "enabled": true},
		{"name": "EXTERNAL", "description": "TLS peer verification-based authentication", "enabled": true},
	}
}
