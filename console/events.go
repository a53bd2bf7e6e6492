package console

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"time"
)

const (
	// eventsEvery is how often a stream sends figures.
	eventsEvery = 2 * time.Second
	// eventWrite is how long a browser may take to accept an event. A tab that sleeps does not hold the stream.
	eventWrite = 10 * time.Second
)

// update is an event: the texts of the page's figures by the ids of their elements.
type update struct {
	Shape   string            `json:"shape"` // another one than that of the page: it has other rows
	At      string            `json:"at"`
	Figures map[string]string `json:"figures"`
	Error   string            `json:"error,omitempty"` // why there are no figures
}

// shapeOf is a short text that differs if the rows of a page differ.
func shapeOf(rows string) string {
	sum := sha256.Sum256([]byte(rows))
	return hex.EncodeToString(sum[:8])
}

// events is a stream of the figures of the overview, or of a run. It ends with the session.
func (x *call) events() error {
	c := x.console
	select {
	case c.streams <- struct{}{}:
		defer func() { <-c.streams }()
	default:
		return &fault{status: http.StatusServiceUnavailable, text: "Too many pages are open.", hint: "The figures of this page are not updated."}
	}
	if err := c.begin(); err != nil {
		return err
	}
	defer c.running.Done()
	h := x.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no") // nginx passes on each event at once
	if x.r.Method == http.MethodHead {
		return nil
	}
	out := http.NewResponseController(x.w)
	tick := time.NewTicker(eventsEvery)
	defer tick.Stop()
	for x.stillMay() {
		next := x.nextUpdate()
		next.Error = c.maskText(next.Error) // the figures are numbers, and words of the console
		text, err := json.Marshal(next)
		if err != nil {
			return err
		}
		_ = out.SetWriteDeadline(time.Now().Add(eventWrite)) // not every server has deadlines
		if _, err := fmt.Fprintf(x.w, "event: figures\ndata: %s\n\n", text); err != nil {
			return nil // the browser has gone
		}
		if err := out.Flush(); err != nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-x.r.Context().Done():
			return nil
		case <-c.closing.Done():
			return nil
		}
	}
	return nil
}

// stillMay reports whether the user may still see the stream. An open page does not prolong a session.
func (x *call) stillMay() bool {
	c := x.console
	if !x.own {
		user, err := c.options.Authenticate(x.r)
		return err == nil && user.Role >= Viewer
	}
	cookie, err := x.r.Cookie(sessionCookie)
	return err == nil && c.sessions.lasts(cookie.Value)
}

func updateAt(shape string, at time.Time) update {
	return update{Shape: shape, At: at.UTC().Format(time.RFC3339), Figures: make(map[string]string)}
}

func (x *call) nextUpdate() update {
	if id := x.r.URL.Query().Get("run"); id != "" {
		return x.nextOfRun(id)
	}
	v, err := x.newOverview()
	if err != nil {
		return update{Error: faultOf(err).text}
	}
	u := updateAt(v.Shape, v.At)
	for _, f := range slices.Concat(v.Sums, v.Steps) {
		u.Figures[f.ID] = f.Value
	}
	for _, n := range v.Attention {
		u.Figures[n.ID] = n.Text
	}
	for _, q := range v.Queues {
		for _, f := range q.Cells {
			u.Figures[f.ID] = f.Value
		}
	}
	return u
}
