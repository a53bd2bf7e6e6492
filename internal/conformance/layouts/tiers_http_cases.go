package layouts

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/rehop/rehop/target"
)

// tiersHTTPCases are what the seed tiers is for: messages that are posted to an endpoint which may be down.
func tiersHTTPCases() []Case {
	return []Case{
		{"AnyAnswerBut2xxIsAFailure", httpAnswers},
		{"NoAnswerInTimeIsAFailure", httpNoAnswer},
		{"PostsUntilTheLastInterval", httpGivesUp},
	}
}

// poster is a handler that posts to the endpoint.
func (e *endpoint) poster(timeout time.Duration) *target.HTTP {
	return &target.HTTP{URL: e.server.URL + "/messages", Client: e.client, Timeout: timeout, RetryAll: true}
}

// Each message asks to be answered with a status at its first attempt; at the second it is taken.
func httpAnswers(b *Bench) {
	l, fleet := tiered(b)
	endpoint := b.endpoint(func(w http.ResponseWriter, r *http.Request, p post) {
		status, err := strconv.Atoi(p.body)
		if err != nil || p.attempt != "1" {
			status = http.StatusOK
		}
		if status >= 300 && status < 400 {
			http.Redirect(w, r, "/elsewhere", status)
			return
		}
		w.WriteHeader(status)
	})
	client := b.Client()
	client.Subscribe(push(l, endpoint.poster(time.Minute), fleet.tiers[0]))
	want := map[string]int{"200": 1, "201": 1, "204": 1, "302": 2, "304": 2, "400": 2, "404": 2, "409": 2, "410": 2, "429": 2, "500": 2, "503": 2}
	requests := 0
	for status, posts := range want {
		client.Publish(userMessage(status))
		requests += posts
	}
	first := make(map[string]time.Time)
	for range requests {
		p := endpoint.Next()
		if want[p.body]--; want[p.body] < 0 {
			b.t.Errorf("message %s: got one request more than wanted", p.body)
		}
		if p.attempt == "1" {
			first[p.body] = p.at
		} else {
			waited(b, "wait of message "+p.body, p.at.Sub(first[p.body]), fleet.tiers[0])
		}
	}
	fleet.WantEmpty("push", "push.failed")
}

// An endpoint that does not answer, and one that hangs up, have failed.
func httpNoAnswer(b *Bench) {
	l, fleet := tiered(b)
	timeout, hang := b.Wait(10*time.Second, 100*time.Millisecond), make(chan struct{})
	endpoint := b.endpoint(func(w http.ResponseWriter, r *http.Request, p post) {
		switch {
		case p.attempt != "1":
		case p.body == "silent":
			<-hang
		default:
			panic(http.ErrAbortHandler)
		}
	})
	defer close(hang)
	client := b.Client()
	client.Subscribe(push(l, endpoint.poster(timeout), fleet.tiers[0]))
	for body, least := range map[string]time.Duration{"silent": timeout + fleet.tiers[0], "hung up": fleet.tiers[0]} {
		client.Publish(userMessage(body))
		first, second := endpoint.Next(), endpoint.Next()
		equal(b, "second request", second.body+" "+second.attempt, body+" 2")
		waited(b, "time between the requests of "+body, second.at.Sub(first.at), least)
	}
	fleet.WantEmpty("push", "push.failed")
}

// An endpoint that never takes the message sees it once at first and once after each interval; then it is in the failed queue, with the last answer.
func httpGivesUp(b *Bench) {
	l, fleet := tiered(b)
	intervals := fleet.tiers[:4]
	endpoint := b.endpoint(func(w http.ResponseWriter, _ *http.Request, _ post) {
		http.Error(w, "the user's phone is off", http.StatusServiceUnavailable)
	})
	client := b.Client()
	client.Subscribe(push(l, endpoint.poster(time.Minute), intervals...))
	client.Publish(userMessage("1"))
	before := endpoint.Next()
	for i, d := range intervals {
		p := endpoint.Next()
		equal(b, "attempt that the endpoint sees", p.attempt, strconv.Itoa(i+2))
		waited(b, "interval", p.at.Sub(before.at), d)
		before = p
	}
	failed := b.Admin(l).WantFailed("push", 1)[0]
	equal(b, "attempts", failed.Attempts, len(intervals)+1)
	if !strings.Contains(failed.Error, "503") || !strings.Contains(failed.Error, "phone is off") {
		b.t.Errorf("error of the failed message: got %q, want the endpoint's answer", failed.Error)
	}
}
