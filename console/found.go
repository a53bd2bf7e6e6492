package console

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"unicode/utf8"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/triage"
)

// foundView is the page of a message of the index.
type foundView struct {
	Message  triage.Message
	Contents contents
	MayAct   bool
	Actions  []triage.Action // that can apply to it in its state
	Editable string          // why it cannot be edited; empty: it can
	Runs     []triage.MessageRun
	From     string // the Ref of the message that it was edited from, if it was
}

// indexed returns the message that an address or a form names.
func (x *call) indexed(ref string) (m triage.Message, err error) {
	err = x.withIndexed(ref, func(_ context.Context, _ *triage.Store, found triage.Message) error {
		m = found
		return nil
	})
	return m, err
}

// withIndexed calls use with the message that an address or a form names, and with the index.
func (x *call) withIndexed(ref string, use func(context.Context, *triage.Store, triage.Message) error) error {
	if ref == "" {
		return &fault{status: http.StatusBadRequest, text: "The address does not name a message.", hint: "Choose a message on the page Search."}
	}
	store, ctx, end, err := x.index()
	if err != nil {
		return err
	}
	defer end()
	m, err := store.Message(ctx, ref)
	if err == nil {
		err = use(ctx, store, m)
	}
	return ofIndex(err)
}

func (x *call) found() error {
	var m triage.Message
	var runs []triage.MessageRun
	var from string
	err := x.withIndexed(x.r.URL.Query().Get("ref"), func(ctx context.Context, store *triage.Store, found triage.Message) (err error) {
		m = found
		if runs, err = store.RunsOf(ctx, m.Ref); err != nil {
			return err
		}
		from, err = store.EditedFrom(ctx, m)
		return err
	})
	if err != nil {
		return err
	}
	shown := x.console.maskIndexed(m)
	query := "?" + url.Values{"ref": {m.Ref}}.Encode()
	v := foundView{Message: shown, Runs: runs, From: from, MayAct: x.may(Operator), Editable: notEditable(shown),
		Contents: x.contentsOf(fromIndexed(shown), "found"+query, "found.body"+query)}
	for _, a := range []triage.Action{triage.ActionReplay, triage.ActionDiscard, triage.ActionRestore, triage.ActionKeep} {
		if canTake(a, m.State) {
			v.Actions = append(v.Actions, a)
		}
	}
	return x.show("found", "Message", v)
}

// canTake reports whether an action can apply to a message in a state.
func canTake(a triage.Action, s triage.State) bool {
	if a == triage.ActionKeep {
		return s == triage.Failed
	}
	return !slices.Contains(takes(a), "-state:"+string(s))
}

// Name is an action as a button.
func (v foundView) Name(a triage.Action) string {
	return map[triage.Action]string{triage.ActionReplay: "Replay…", triage.ActionDiscard: "Discard…", triage.ActionRestore: "Restore…", triage.ActionKeep: "Keep in the index…"}[a]
}

// foundBody is a download of the bytes of a message's body.
func (x *call) foundBody() error {
	m, err := x.indexed(x.r.URL.Query().Get("ref"))
	if err != nil {
		return err
	}
	shown := x.console.maskIndexed(m)
	x.download(shown.ID, shown.Body)
	return nil
}

// fromIndexed is a message of the index as package admin has them.
func fromIndexed(m triage.Message) admin.Message {
	return admin.Message{
		ID: m.ID, Queue: m.Queue, Exchange: m.Exchange, Key: m.Key, Headers: m.Headers, Body: m.Body,
		ContentType: m.ContentType, ContentEncoding: m.ContentEncoding, Priority: m.Priority, Timestamp: m.Timestamp,
		CorrelationID: m.CorrelationID, ReplyTo: m.ReplyTo, Type: m.Type, AppID: m.AppID,
		Kind: rehop.Kind(m.Kind), Error: m.Error, Stack: m.Stack, Attempts: m.Attempts, Replays: m.Replays,
		FailedAt: m.FailedAt, FirstFailed: m.FirstFailed, Host: m.Host, Version: m.Version,
	}
}

// notEditable is why a message cannot be edited in a browser, or empty.
func notEditable(m triage.Message) string {
	switch {
	case !canTake(triage.ActionReplay, m.State):
		return "It is " + string(m.State) + ", so it cannot be replayed."
	case len(m.Body) > maxEdited:
		return "Its body is larger than " + size(maxEdited) + ", which a browser cannot edit. Export it, change it and import it with rehop failed."
	case !utf8.Valid(m.Body):
		return "Its body is not UTF-8, which a browser cannot edit. Export it, change it and import it with rehop failed."
	}
	return ""
}
