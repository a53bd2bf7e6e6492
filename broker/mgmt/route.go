package mgmt

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/rehop/rehop/broker/internal/node"
)

// route is one method on one path. Its pattern is in the manner of http.ServeMux, which could not be used: it does not match a segment that
// is %2F alone, the name of the usual virtual host, and redirects names such as ".." elsewhere.
type route struct {
	pattern string
	needs   role
	serve   func(*call) (any, error)
}

// routes is the whole API of a release. The first that fits is taken.
func routes(release node.Compat) []route {
	all := []route{
		{"GET /api/overview", anybody, (*call).overview},
		{"GET /api/cluster-name", anybody, (*call).clusterName},
		{"PUT /api/cluster-name", administrator, (*call).putClusterName},
		{"GET /api/nodes", monitor, (*call).nodes},
		{"GET /api/nodes/{node}", monitor, (*call).oneNode},
		{"GET /api/whoami", anybody, (*call).whoami},

		{"GET /api/definitions", administrator, (*call).exportAll},
		{"POST /api/definitions", administrator, (*call).importAll},
		{"GET /api/definitions/{vhost}", administrator, (*call).exportVhost},
		{"POST /api/definitions/{vhost}", administrator, (*call).importVhost},

		{"GET /api/vhosts", anybody, (*call).vhosts},
		{"GET /api/vhosts/{vhost}", administrator, (*call).oneVhost},
		{"PUT /api/vhosts/{name}", administrator, (*call).putVhost},
		{"DELETE /api/vhosts/{vhost}", administrator, (*call).deleteVhost},
		{"GET /api/vhosts/{vhost}/permissions", administrator, (*call).permissionsInVhost},
		{"GET /api/vhosts/{vhost}/connections", member, (*call).connections},
		{"GET /api/vhosts/{vhost}/channels", member, (*call).channels},

		{"GET /api/users", administrator, (*call).users},
		{"GET /api/users/without-permissions", administrator, (*call).usersWithoutPermissions},
		{"POST /api/users/bulk-delete", administrator, (*call).deleteUsers},
		{"GET /api/users/{user}", administrator, (*call).oneUser},
		{"PUT /api/users/{user}", administrator, (*call).putUser},
		{"DELETE /api/users/{user}", administrator, (*call).deleteUser},
		{"GET /api/users/{user}/permissions", administrator, (*call).permissionsOfUser},
		{"GET /api/permissions", administrator, (*call).permissions},
		{"GET /api/permissions/{vhost}/{user}", administrator, (*call).onePermission},
		{"PUT /api/permissions/{vhost}/{user}", administrator, (*call).putPermission},
		{"DELETE /api/permissions/{vhost}/{user}", administrator, (*call).deletePermission},

		{"GET /api/operator-policies", anybody, (*call).operatorPolicies},
		{"GET /api/operator-policies/{vhost}", member, (*call).operatorPolicies},
		{"GET /api/operator-policies/{vhost}/{name}", administrator, (*call).oneOperatorPolicy},
		{"PUT /api/operator-policies/{vhost}/{name}", administrator, (*call).putOperatorPolicy},
		{"DELETE /api/operator-policies/{vhost}/{name}", administrator, (*call).deleteOperatorPolicy},
		{"GET /api/policies", anybody, (*call).policies},
		{"GET /api/policies/{vhost}", member, (*call).policies},
		{"GET /api/policies/{vhost}/{name}", policymaker, (*call).onePolicy},
		{"PUT /api/policies/{vhost}/{name}", policymaker, (*call).putPolicy},
		{"DELETE /api/policies/{vhost}/{name}", policymaker, (*call).deletePolicy},

		{"GET /api/extensions", anybody, (*call).none},

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
		{"GET /api/topic-permissions/{vhost}/{user}", administrator, (*call).topicPermissionsOfUserInVhost},
		{"PUT /api/topic-permissions/{vhost}/{user}", administrator, (*call).putTopicPermission},
		{"DELETE /api/topic-permissions/{vhost}/{user}", administrator, (*call).deleteTopicPermissions},
		// As in RabbitMQ, the exchange matters only for who deletes.
		{"GET /api/topic-permissions/{vhost}/{user}/{exchange}", administrator, (*call).topicPermissionsOfUserInVhost},
		{"PUT /api/topic-permissions/{vhost}/{user}/{exchange}", administrator, (*call).putTopicPermission},
		{"DELETE /api/topic-permissions/{vhost}/{user}/{exchange}", administrator, (*call).deleteTopicPermission},
		{"GET /api/users/{user}/topic-permissions", administrator, (*call).topicPermissionsOfUser},
		{"GET /api/vhosts/{vhost}/topic-permissions", administrator, (*call).topicPermissions},
		{"PUT /api/user-limits/{user}/{name}", administrator, (*call).putUserLimit},
		{"DELETE /api/user-limits/{user}/{name}", administrator, (*call).deleteUserLimit},
		{"GET /api/vhost-limits", anybody, (*call).vhostLimits},
		{"GET /api/vhost-limits/{vhost}", onlooker, (*call).vhostLimits},
		{"PUT /api/vhost-limits/{vhost}/{name}", administrator, (*call).putVhostLimit},
		{"DELETE /api/vhost-limits/{vhost}/{name}", administrator, (*call).deleteVhostLimit},

		{"GET /api/connections", anybody, (*call).connections},
		{"GET /api/connections/username/{user}", anybody, (*call).connectionsOfUser},
		{"DELETE /api/connections/username/{user}", administrator, (*call).closeConnectionsOfUser},
		{"GET /api/connections/{connection}", anybody, (*call).oneConnection},
		{"DELETE /api/connections/{connection}", anybody, (*call).closeConnection},
		{"GET /api/connections/{connection}/channels", anybody, (*call).channelsOfConnection},
		{"GET /api/channels", anybody, (*call).channels},
		{"GET /api/channels/{channel}", anybody, (*call).oneChannel},
		{"GET /api/consumers", anybody, (*call).consumers},
		{"GET /api/consumers/{vhost}", anybody, (*call).consumers},

		{"GET /api/exchanges", anybody, (*call).exchanges},
		{"GET /api/exchanges/{vhost}", member, (*call).exchanges},
		{"GET /api/exchanges/{vhost}/{exchange}", member, (*call).oneExchange},
		{"PUT /api/exchanges/{vhost}/{exchange}", member, (*call).declareExchange},
		{"DELETE /api/exchanges/{vhost}/{exchange}", member, (*call).deleteExchange},
		{"POST /api/exchanges/{vhost}/{exchange}/publish", member, (*call).publish},
		{"GET /api/exchanges/{vhost}/{exchange}/bindings/source", member, (*call).bindingsFromExchange},
		{"GET /api/exchanges/{vhost}/{exchange}/bindings/destination", member, (*call).bindingsToExchange},

		{"GET /api/queues", anybody, (*call).queues},
		{"GET /api/queues/{vhost}", member, (*call).queues},
		{"GET /api/queues/{vhost}/{queue}", member, (*call).oneQueue},
		{"PUT /api/queues/{vhost}/{queue}", member, (*call).declareQueue},
		{"DELETE /api/queues/{vhost}/{queue}", member, (*call).deleteQueue},
		{"GET /api/queues/{vhost}/{queue}/bindings", member, (*call).bindingsToQueue},
		{"DELETE /api/queues/{vhost}/{queue}/contents", member, (*call).purgeQueue},
		{"POST /api/queues/{vhost}/{queue}/get", member, (*call).getMessages},

		{"GET /api/bindings", anybody, (*call).bindings},
		{"GET /api/bindings/{vhost}", member, (*call).bindings},
		{"GET /api/bindings/{vhost}/e/{source}/{kind}/{destination}", member, (*call).bindingsBetween},
		{"POST /api/bindings/{vhost}/e/{source}/{kind}/{destination}", member, (*call).bind},
		{"GET /api/bindings/{vhost}/e/{source}/{kind}/{destination}/{key}", member, (*call).oneBinding},
		{"DELETE /api/bindings/{vhost}/e/{source}/{kind}/{destination}/{key}", member, (*call).unbind},

		{"GET /api/aliveness-test/{vhost}", member, (*call).aliveness},
		{"GET /api/healthchecks/node", anybody, (*call).nodeHealth},
		{"GET /api/healthchecks/node/{node}", anybody, (*call).nodeHealth},
		{"GET /api/health/checks/alarms", anybody, (*call).alarms},
		{"GET /api/health/checks/local-alarms", anybody, (*call).alarms},
		{"GET /api/health/checks/virtual-hosts", anybody, (*call).vhostHealth},
		{"GET /api/health/checks/certificate-expiration/{within}/{unit}", anybody, working((*call).certificates)},
		{"GET /api/health/checks/port-listener/{port}", anybody, working((*call).portListener)},
		{"GET /api/health/checks/protocol-listener/{protocol}", anybody, working((*call).protocolListener)},
		{"GET /api/health/checks/node-is-quorum-critical", anybody, working((*call).alone)},

		{"GET /metrics", monitor, (*call).metrics},
		{"GET /metrics/per-object", monitor, (*call).metricsPerObject},
	}
	if release < node.RabbitMQ40 {
		all = append(all, route{"GET /api/health/checks/node-is-mirror-sync-critical", anybody, working((*call).alone)},
			route{"GET /api/feature-flags", administrator, (*call).none})
	} else {
		all = append(all, route{"GET /api/feature-flags", anybody, (*call).none},
			route{"GET /api/deprecated-features", anybody, (*call).deprecatedFeatures}, route{"GET /api/deprecated-features/used", anybody, (*call).usedFeatures})
	}
	limits, limitsOfUser := anybody, anybody
	if release >= node.RabbitMQ43 {
		limits, limitsOfUser = administrator, account
	}
	return append(all, route{"GET /api/user-limits", limits, (*call).userLimits}, route{"GET /api/user-limits/{user}", limitsOfUser, (*call).limitsOfUser})
}

// match returns the values of a pattern's names if a path fits.
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

// find returns the route for a request and the values of its path. Without one, it returns which methods there are.
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

// split returns the names in a path. An empty exchange is the default exchange, and a slash at the end says nothing.
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

// defaultExchange is how the API names the exchange without a name.
const defaultExchange = "amq.default"

// ServeHTTP answers a request of somebody who is known.
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

func (c *call) answer() (any, error) {
	if err := c.protection.Check(c.r); err != nil {
		return nil, &failure{http.StatusForbidden, "forbidden", err.Error()}
	}
	if err := c.login(); err != nil {
		return nil, err
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
	if err := c.permit(rt.needs); err != nil {
		return nil, err
	}
	if c.vhost == nil && c.path("vhost") != "" {
		return nil, notFound()
	}
	answer, err := rt.serve(c)
	if err != nil {
		return nil, err
	}
	return c.shape(answer)
}

// refuseMethod answers what has no route: 405 if another method has.
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
