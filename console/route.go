package console

import "net/http"

// route is what a method of a path does, and who may use it.
type route struct {
	method string
	path   string // below the base
	role   Role   // that a user needs; 0: everybody, without a login
	// changes: it changes something on the broker, so a console that is read-only refuses it.
	changes bool
	answer  func(*call) error
}

const loginPath = "login"

// routes is everything that the console serves, except its assets. A path that is not here does not exist.
func routes() []route {
	return []route{
		{http.MethodGet, loginPath, 0, false, (*call).loginPage},
		{http.MethodPost, loginPath, 0, false, (*call).login},
		{http.MethodPost, "logout", Viewer, false, (*call).logout},
		{http.MethodPost, "preferences", 0, false, (*call).prefer},

		{http.MethodGet, "", Viewer, false, (*call).overview},
		{http.MethodGet, "events", Viewer, false, (*call).events},
		{http.MethodGet, "queues", Viewer, false, (*call).queues},
		{http.MethodGet, "queue", Viewer, false, (*call).queue},
		{http.MethodGet, "failed", Viewer, false, (*call).failed},
		{http.MethodGet, "message", Viewer, false, (*call).message},
		{http.MethodGet, "body", Viewer, false, (*call).body},
		{http.MethodGet, "export", Viewer, false, (*call).export},
		{http.MethodPost, "confirm", Operator, true, (*call).confirm},
		{http.MethodPost, "replay", Operator, true, (*call).replay},
		{http.MethodPost, "discard", Operator, true, (*call).discard},
		{http.MethodGet, "waiting", Viewer, false, (*call).waiting},
		{http.MethodGet, "held", Viewer, false, (*call).held},
		{http.MethodPost, "skip", Operator, true, (*call).skip},
		{http.MethodGet, "topology", Viewer, false, (*call).topology},
		{http.MethodGet, "topology.svg", Viewer, false, (*call).picture},
		{http.MethodGet, "doctor", Viewer, false, (*call).doctor},
		{http.MethodGet, "settings", Viewer, false, (*call).settings},
		{http.MethodPost, "sessions", Admin, false, (*call).endSessions},
		{http.MethodGet, "shortcuts", Viewer, false, (*call).shortcuts},
	}
}

func routesByPath() map[string]map[string]route {
	all := make(map[string]map[string]route)
	for _, r := range routes() {
		if all[r.path] == nil {
			all[r.path] = make(map[string]route)
		}
		all[r.path][r.method] = r
	}
	return all
}
