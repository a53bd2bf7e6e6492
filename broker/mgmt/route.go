package mgmt

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/rehop/rehop/broker/internal/node"
	"github.com/rehop/rehop/internal/hosts"
)

// route is one method on one path. Its pattern looks like one of http.ServeMux, which does not match a segment that is
// only %2F, the name of the default virtual host, and redirects names such as "..".
type route struct {
	pattern string
	needs   role
	serve   func(*call) (any, error)
}

// routes is the whole API of a release. The first matching route is used.
func routes(release node.Compat) []route {
	bindings := listOf((*node.Vhost).Bindings, bindingObject)
	exchanges := listOf((*node.Vhost).Exchanges, exchangeObject)
	queues := listOf((*node.Vhost).Queues, queueBrief)
	policies := listOf((*node.Vhost).Policies, policyObject)
	operatorPolicies := listOf((*node.Vhost).OperatorPolicies, policyObject)
	all := []route{
		{"GET /api/overview", anyUser, (*call).overview},
		{"GET /api/cluster-name", anyUser, (*call).clusterName},
		{"PUT /api/cluster-name", administrator, (*call).putClusterName},
		{"GET /api/nodes", monitor, (*call).nodes},
		{"GET /api/nodes/{node}", monitor, (*call).oneNode},
		{"GET /api/whoami", anyUser, (*call).whoami},

		{"GET /api/definitions", administrator, (*call).exportAll},
		{"POST /api/definitions", administrator, (*call).importDefinitions},
		{"GET /api/definitions/{vhost}", administrator, (*call).exportVhost},
		{"POST /api/definitions/{vhost}", administrator, (*call).importDefinitions},

		{"GET /api/vhosts", anyUser, (*call).vhosts},
		{"GET /api/vhosts/{vhost}", administrator, (*call).oneVhost},
		{"PUT /api/vhosts/{name}", administrator, (*call).putVhost},
		{"DELETE /api/vhosts/{vhost}", administrator, (*call).deleteVhost},
		{"GET /api/vhosts/{vhost}/permissions", administrator, (*call).permissions},
		{"GET /api/vhosts/{vhost}/connections", vhostUser, (*call).connections},
		{"GET /api/vhosts/{vhost}/channels", vhostUser, (*call).channels},

		{"GET /api/users", administrator, (*call).users},
		{"GET /api/users/without-permissions", administrator, (*call).usersWithoutPermissions},
		{"POST /api/users/bulk-delete", administrator, (*call).deleteUsers},
		{"GET /api/users/{user}", administrator, ofUser((*call).oneUser)},
		{"PUT /api/users/{user}", administrator, (*call).putUser},
		{"DELETE /api/users/{user}", administrator, ofUser((*call).deleteUser)},
		{"GET /api/users/{user}/permissions", administrator, ofUser((*call).permissionsOfUser)},
		{"GET /api/permissions", administrator, (*call).permissions},
		{"GET /api/permissions/{vhost}/{user}", administrator, ofUser((*call).onePermission)},
		{"PUT /api/permissions/{vhost}/{user}", administrator, (*call).putPermission},
		{"DELETE /api/permissions/{vhost}/{user}", administrator, ofUser((*call).deletePermission)},

		{"GET /api/operator-policies", anyUser, operatorPolicies},
		{"GET /api/operator-policies/{vhost}", vhostUser, operatorPolicies},
		{"GET /api/operator-policies/{vhost}/{name}", administrator, onePolicy(true)},
		{"PUT /api/operator-policies/{vhost}/{name}", administrator, putPolicy(true)},
		{"DELETE /api/operator-policies/{vhost}/{name}", administrator, deletePolicy(true)},
		{"GET /api/policies", anyUser, policies},
		{"GET /api/policies/{vhost}", vhostUser, policies},
		{"GET /api/policies/{vhost}/{name}", policymaker, onePolicy(false)},
		{"PUT /api/policies/{vhost}/{name}", policymaker, putPolicy(false)},
		{"DELETE /api/policies/{vhost}/{name}", policymaker, deletePolicy(false)},

		{"GET /api/extensions", anyUser, (*call).none},

		{"GET /api/global-parameters", policymaker, (*call).globalParameters},
		{"GET /api/global-parameters/{name}", policymaker, (*call).oneGlobalParameter},
		{"PUT /api/global-parameters/{name}", policymaker, (*call).putGlobalParameter},
		{"DELETE /api/global-parameters/{name}", policymaker, (*call).deleteGlobalParameter},
		{"GET /api/parameters", policymaker, (*call).parameters},
		{"GET /api/parameters/{component}", policymaker, (*call).parameters},
		{"GET /api/parameters/{component}/{vhost}", policymaker, (*call).parameters},
		{"GET /api/parameters/{component}/{vhost}/{name}", policymaker, (*call).oneParameter},
		{"PUT /api/parameters/{component}/{vhost}/{name}", policymaker, (*call).putParameter},
		{"DELETE /api/parameters/{component}/{vhost}/{name}", policymaker, (*call).deleteParameter},
		{"GET /api/topic-permissions", administrator, (*call).topicPermissions},
		{"GET /api/topic-permissions/{vhost}/{user}", administrator, ofUser((*call).topicPermissionsOfUserInVhost)},
		{"PUT /api/topic-permissions/{vhost}/{user}", administrator, (*call).putTopicPermission},
		{"DELETE /api/topic-permissions/{vhost}/{user}", administrator, ofUser((*call).deleteTopicPermissions)},
		// As in RabbitMQ, the exchange matters only for DELETE.
		{"GET /api/topic-permissions/{vhost}/{user}/{exchange}", administrator, ofUser((*call).topicPermissionsOfUserInVhost)},
		{"PUT /api/topic-permissions/{vhost}/{user}/{exchange}", administrator, (*call).putTopicPermission},
		{"DELETE /api/topic-permissions/{vhost}/{user}/{exchange}", administrator, ofUser((*call).deleteTopicPermission)},
		{"GET /api/users/{user}/topic-permissions", administrator, ofUser((*call).topicPermissionsOfUser)},
		{"GET /api/vhosts/{vhost}/topic-permissions", administrator, (*call).topicPermissions},
		{"PUT /api/user-limits/{user}/{name}", administrator, (*call).putUserLimit},
		{"DELETE /api/user-limits/{user}/{name}", administrator, ofUser((*call).deleteUserLimit)},
		{"GET /api/vhost-limits", anyUser, (*call).vhostLimits},
		{"GET /api/vhost-limits/{vhost}", vhostUserOrMonitor, (*call).vhostLimits},
		{"PUT /api/vhost-limits/{vhost}/{name}", administrator, (*call).putVhostLimit},
		{"DELETE /api/vhost-limits/{vhost}/{name}", administrator, (*call).deleteVhostLimit},

		{"GET /api/connections", anyUser, (*call).connections},
		{"GET /api/connections/username/{user}", anyUser, (*call).connections},
		{"DELETE /api/connections/username/{user}", administrator, (*call).closeConnectionsOfUser},
		{"GET /api/connections/{connection}", anyUser, (*call).oneConnection},
		{"DELETE /api/connections/{connection}", anyUser, (*call).closeConnection},
		{"GET /api/connections/{connection}/channels", anyUser, (*call).channelsOfConnection},
		{"GET /api/channels", anyUser, (*call).channels},
		{"GET /api/channels/{channel}", anyUser, (*call).oneChannel},
		{"GET /api/consumers", anyUser, (*call).consumers},
		{"GET /api/consumers/{vhost}", anyUser, (*call).consumers},

		{"GET /api/exchanges", anyUser, exchanges},
		{"GET /api/exchanges/{vhost}", vhostUser, exchanges},
		{"GET /api/exchanges/{vhost}/{exchange}", vhostUser, (*call).oneExchange},
		{"PUT /api/exchanges/{vhost}/{exchange}", vhostUser, (*call).declareExchange},
		{"DELETE /api/exchanges/{vhost}/{exchange}", vhostUser, (*call).deleteExchange},
		{"POST /api/exchanges/{vhost}/{exchange}/publish", vhostUser, (*call).publish},
		{"GET /api/exchanges/{vhost}/{exchange}/bindings/source", vhostUser, (*call).bindingsFromExchange},
		{"GET /api/exchanges/{vhost}/{exchange}/bindings/destination", vhostUser, (*call).bindingsToExchange},

		{"GET /api/queues", anyUser, queues},
		{"GET /api/queues/{vhost}", vhostUser, queues},
		{"GET /api/queues/{vhost}/{queue}", vhostUser, (*call).oneQueue},
		{"PUT /api/queues/{vhost}/{queue}", vhostUser, (*call).declareQueue},
		{"DELETE /api/queues/{vhost}/{queue}", vhostUser, (*call).deleteQueue},
		{"GET /api/queues/{vhost}/{queue}/bindings", vhostUser, (*call).bindingsToQueue},
		{"DELETE /api/queues/{vhost}/{queue}/contents", vhostUser, (*call).purgeQueue},
		{"POST /api/queues/{vhost}/{queue}/get", vhostUser, (*call).getMessages},

		{"GET /api/bindings", anyUser, bindings},
		{"GET /api/bindings/{vhost}", vhostUser, bindings},
		{"GET /api/bindings/{vhost}/e/{source}/{kind}/{destination}", vhostUser, (*call).bindingsBetween},
		{"POST /api/bindings/{vhost}/e/{source}/{kind}/{destination}", vhostUser, (*call).bind},
		{"GET /api/bindings/{vhost}/e/{source}/{kind}/{destination}/{key}", vhostUser, (*call).oneBinding},
		{"DELETE /api/bindings/{vhost}/e/{source}/{kind}/{destination}/{key}", vhostUser, (*call).unbind},

		{"GET /api/aliveness-test/{vhost}", vhostUser, (*call).aliveness},
		{"GET /api/healthchecks/node", anyUser, (*call).nodeHealth},
		{"GET /api/healthchecks/node/{node}", anyUser, (*call).nodeHealth},
		{"GET /api/health/checks/alarms", anyUser, (*call).alarms},
		{"GET /api/health/checks/local-alarms", anyUser, (*call).alarms},
		{"GET /api/health/checks/virtual-hosts", anyUser, (*call).vhostHealth},
		{"GET /api/health/checks/certificate-expiration/{within}/{unit}", anyUser, working((*call).certificates)},
		{"GET /api/health/checks/port-listener/{port}", anyUser, working((*call).portListener)},
		{"GET /api/health/checks/protocol-listener/{protocol}", anyUser, working((*call).protocolListener)},
		{"GET /api/health/checks/node-is-quorum-critical", anyUser, working((*call).singleNode)},

		{"GET /api/rehop/backup", administrator, (*call).backup},

		{"GET /metrics", monitor, (*call).metrics},
		{"GET /metrics/per-object", monitor, (*call).metricsPerObject},
	}
	if release < node.RabbitMQ40 {
		all = append(all, route{"GET /api/health/checks/node-is-mirror-sync-critical", anyUser, working((*call).singleNode)},
			route{"GET /api/feature-flags", administrator, (*call).none})
	} else {
		all = append(all, route{"GET /api/feature-flags", anyUser, (*call).none},
			route{"GET /api/deprecated-features", anyUser, (*call).deprecatedFeatures}, route{"GET /api/deprecated-features/used", anyUser, (*call).usedFeatures})
	}
	limits, limitsOfUser := anyUser, anyUser
	if release >= node.RabbitMQ43 {
		limits, limitsOfUser = administrator, monitorOrSelf
	}
	return append(all, route{"GET /api/user-limits", limits, (*call).userLimits}, route{"GET /api/user-limits/{user}", limitsOfUser, ofUser((*call).limitsOfUser)})
}

// match returns the values of the names in a pattern if a path matches.
func (rt route) match(path []string) (values map[string]string, ok bool) {
	_, pattern, _ := strings.Cut(rt.pattern, " /")
	segments := strings.Split(pattern, "/")
	if len(segments) != len(path) {
		return nil, false
	}
	values = make(map[string]string)
	for i, s := range segments {
		if name, named := strings.CutPrefix(s, "{"); named && path[i] != "" {
			values[strings.TrimSuffix(name, "}")] = path[i]
		} else if s != path[i] {
			return nil, false
		}
	}
	return values, true
}

func (rt route) method() string {
	method, _, _ := strings.Cut(rt.pattern, " ")
	return method
}

// find returns the route of a request and the values of its path. If there is none, it returns the methods that exist.
func (a *api) find(method string, path []string) (found route, values map[string]string, allowed []string) {
	if method == http.MethodHead {
		method = http.MethodGet
	}
	for _, rt := range a.routes {
		fits, ok := rt.match(path)
		if !ok {
			continue
		}
		if rt.method() == method {
			return rt, fits, nil
		}
		if !slices.Contains(allowed, rt.method()) {
			allowed = append(allowed, rt.method())
		}
	}
	return route{}, nil, allowed
}

// split returns the segments of a path. An empty exchange is the default exchange, and a slash at the end is ignored.
func split(escaped string) ([]string, error) {
	segments := strings.Split(strings.Trim(escaped, "/"), "/")
	for i, s := range segments {
		name, err := url.PathUnescape(s)
		if err != nil {
			return nil, err
		}
		if name == "" && i > 2 && (segments[i-1] == "e" || segments[i-2] == "exchanges") {
			name = defaultExchange
		}
		segments[i] = name
	}
	return segments, nil
}

// defaultExchange is the API's name for the default exchange.
const defaultExchange = "amq.default"

// ServeHTTP authenticates the user and answers the request.
func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	c := &call{api: a, w: w, r: r}
	answer, err := c.answer()
	if err != nil {
		write(w, err)
		return
	}
	write(w, answer)
}

// welcome is for people who open the address in a browser, and look for RabbitMQ's pages there.
const welcome = `The management API of rehop's embedded broker, at /api. It has no pages.
The commands rehop queues, rehop top and rehop failed show queues and messages.
`

func (c *call) answer() (any, error) {
	if !c.hosts.Allows(c.r.Host) {
		return nil, &failure{http.StatusMisdirectedRequest, "misdirected_request", hosts.Refusal(c.r.Host)}
	}
	if err := c.protection.Check(c.r); err != nil {
		return nil, &failure{http.StatusForbidden, "forbidden", err.Error()}
	}
	if err := c.login(); err != nil {
		return nil, err
	}
	if c.r.URL.Path == "/" && (c.r.Method == http.MethodGet || c.r.Method == http.MethodHead) {
		return document{"text/plain; charset=utf-8", []byte(welcome)}, nil
	}
	path, err := split(c.r.URL.EscapedPath())
	if err != nil {
		return nil, notFound()
	}
	rt, values, allowed := c.find(c.r.Method, path)
	if rt.serve == nil {
		return c.refuseMethod(allowed)
	}
	c.values = values
	if name := c.path("vhost"); name != "" {
		c.vhost = c.node.Vhost(name)
	}
	answer, err := c.run(rt)
	c.audit(rt, err)
	if err != nil {
		return nil, err
	}
	return c.shape(answer)
}

// run answers a request if the user may make it.
func (c *call) run(rt route) (any, error) {
	if err := c.permit(rt.needs); err != nil {
		return nil, err
	}
	if c.vhost == nil && c.path("vhost") != "" {
		return nil, notFound()
	}
	return rt.serve(c)
}

// refuseMethod answers a request without a route: 405 if there is a route with another method.
func (c *call) refuseMethod(allowed []string) (any, error) {
	if len(allowed) == 0 {
		return nil, notFound()
	}
	if slices.Contains(allowed, http.MethodGet) {
		allowed = append(allowed, http.MethodHead)
	}
	c.w.Header().Set("Allow", strings.Join(append(allowed, http.MethodOptions), ", "))
	if c.r.Method == http.MethodOptions {
		return status(http.StatusOK), nil
	}
	return nil, &failure{http.StatusMethodNotAllowed, "method_not_allowed", c.r.Method + " is not for this resource"}
}
