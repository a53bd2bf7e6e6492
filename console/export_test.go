package console

// Route is a route, for tests of all of them.
type Route struct {
	Method, Path string
	Role         Role
	Changes      bool
}

// Routes are all routes.
func Routes() (all []Route) {
	for _, r := range routes() {
		all = append(all, Route{r.method, r.path, r.role, r.changes})
	}
	return all
}

// What tests of sessions need to know.
const (
	SessionCookie = sessionCookie
	AttemptCookie = attemptCookie
	SessionIdle   = sessionIdle
	SessionLimit  = sessionLimit
	MaxSessions   = maxSessions
	EventsEvery   = eventsEvery
	MaxWorking    = maxWorking
	MaxAhead      = maxAhead
)
