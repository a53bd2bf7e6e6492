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
		{http.MethodGet, "provider", 0, false, (*call).beginAtProvider},
		{http.MethodGet, "callback", 0, false, (*call).finishAtProvider},
		{http.MethodPost, "logout", Viewer, false, (*call).logout},
		{http.MethodPost, "preferences", 0, false, (*call).prefer},

		{http.MethodGet, "", Viewer, false, (*call).overview},
		{http.MethodGet, "events", Viewer, false, (*call).events},
		{http.MethodGet, "queues", Viewer, false, (*call).queues},
		{http.MethodGet, "queue", Viewer, false, (*call).queue},
		{http.MethodGet, "consumers", Viewer, false, (*call).consumers},
		{http.MethodGet, "failed", Viewer, false, (*call).failed},
		{http.MethodGet, "message", Viewer, false, (*call).message},
		{http.MethodGet, "body", Viewer, false, (*call).body},
		{http.MethodGet, "export", Viewer, false, (*call).export},
		{http.MethodPost, "confirm", Operator, true, (*call).confirm},
		{http.MethodPost, "replay", Operator, true, (*call).replay},
		{http.MethodPost, "discard", Operator, true, (*call).discard},
		{http.MethodGet, "groups", Viewer, false, (*call).groups},
		{http.MethodGet, "group", Viewer, false, (*call).group},
		{http.MethodPost, "group", Operator, true, (*call).setGroup},
		{http.MethodGet, "search", Viewer, false, (*call).search},
		{http.MethodGet, "found", Viewer, false, (*call).found},
		{http.MethodGet, "found.body", Viewer, false, (*call).foundBody},
		{http.MethodGet, "found.export", Viewer, false, (*call).exportFound},
		{http.MethodGet, "edit", Operator, true, (*call).edit},
		{http.MethodPost, "edit", Operator, true, (*call).preview},
		{http.MethodPost, "resend", Operator, true, (*call).resend},
		{http.MethodPost, "plan", Operator, true, (*call).plan},
		{http.MethodPost, "start", Operator, true, (*call).start},
		{http.MethodGet, "runs", Viewer, false, (*call).runs},
		{http.MethodGet, "run", Viewer, false, (*call).run},
		{http.MethodPost, "run", Operator, true, (*call).setRun},
		{http.MethodGet, "audit", Admin, false, (*call).audit},
		{http.MethodGet, "waiting", Viewer, false, (*call).waiting},
		{http.MethodGet, "held", Viewer, false, (*call).held},
		{http.MethodPost, "skip", Operator, true, (*call).skip},
		{http.MethodGet, "outbox", Viewer, false, (*call).outbox},
		{http.MethodPost, "outbox", Operator, true, (*call).changeOutbox},
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
