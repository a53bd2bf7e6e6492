package admin_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/rehop/rehop/admin"
)

// other is an Admin of the ward's broker with the management API of another one.
func (w *ward) other(api *ward) *admin.Admin {
	w.t.Helper()
	a, err := admin.Open(w.t.Context(), admin.Config{URL: "amqp://guest:guest@embedded/", Dial: w.server.Dial,
		Management: "http://guest:secret@elsewhere:15672", HTTP: &http.Client{Transport: asGuest{api}}})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(a.Close)
	return a
}

// asGuest is an API that knows guest with any password.
type asGuest struct{ *ward }

func (g asGuest) RoundTrip(r *http.Request) (*http.Response, error) {
	r.SetBasicAuth("guest", "guest")
	return g.ward.RoundTrip(r)
}

// A move is not planned with the management API of another broker, nor onto the source itself.
func TestMovePlaces(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		from, to := newWard(t, nil), newWard(t, nil)
		if _, err := from.admin.PlanMove(t.Context(), from.admin, admin.MoveOptions{}); !errors.Is(err, admin.ErrSamePlace) {
			t.Errorf("plan a move onto itself: got %v, want ErrSamePlace", err)
		}
		again := from.other(from) // the same broker, by another name
		if _, err := from.admin.PlanMove(t.Context(), again, admin.MoveOptions{}); !errors.Is(err, admin.ErrSamePlace) {
			t.Errorf("plan a move onto itself by another name: got %v, want ErrSamePlace", err)
		}
		if err := again.CheckManagement(t.Context()); err != nil {
			t.Errorf("the API of the same broker: got %v", err)
		}
		wrong := to.other(from)
		for what, err := range map[string]error{"target": second(from.admin.PlanMove(t.Context(), wrong, admin.MoveOptions{})),
			"source": second(wrong.Move(t.Context(), from.admin, admin.MoveOptions{}))} {
			if !errors.Is(err, admin.ErrOtherBroker) || !strings.Contains(err.Error(), what) || !strings.Contains(err.Error(), "http://elsewhere:15672") ||
				strings.Contains(err.Error(), "secret") {
				t.Errorf("the API of another broker: got %v, want ErrOtherBroker with %q and the URL, without the password", err, what)
			}
		}
		for _, w := range []*ward{from, to} {
			if live, err := w.admin.Live(t.Context()); err != nil || len(live.Queues) > 0 {
				t.Errorf("got %v, %v, want no queues left", live.Queues, err)
			}
		}
	})
}

func second[T any](_ T, err error) error { return err }
