package console

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/rehop/rehop/internal/headerjson"
	"github.com/rehop/rehop/triage"
)

// editView is the form for a message, or the preview of what was changed.
type editView struct {
	Message      triage.Message
	Body         string // as fields of a form
	Headers      string
	Base         string // of the message that was edited
	ID           string // of the run, so that a form that is sent twice starts one
	Wrong        string
	NoJSON       bool // the body was JSON, and is not any more
	BodyLines    []diffLine
	HeadersLines []diffLine
}

// maxEdited is how many bytes a body and headers can have to be edited. A form is up to three times as long.
const maxEdited = 128 << 10

// editing reads the message of a form. original has what is masked, and v what is shown.
func (x *call) editing(ref string) (original triage.Message, v editView, err error) {
	if original, err = x.indexed(ref); err != nil {
		return original, v, err
	}
	v.Message = x.console.maskIndexed(original)
	if why := notEditable(v.Message); why != "" {
		return original, v, &fault{status: http.StatusConflict, text: "The message cannot be edited here. " + why}
	}
	headers, err := headersText(v.Message.Headers)
	if err != nil || len(headers) > maxEdited {
		return original, v, &fault{status: http.StatusConflict, text: "The headers of the message are too large to be edited here."}
	}
	v.Body, v.Headers = editable(string(v.Message.Body)), editable(headers)
	// Not a hash of what is masked: whoever knows the rest could guess it.
	v.Base = shapeOf(fmt.Sprintf("%s\x00%s\x00%s\x00%d", v.Message.Body, headers, stamp(original.FailedAt), original.Replays))
	return original, v, nil
}

// headersText are headers as JSON with their types, a line for each.
func headersText(headers map[string]any) (string, error) {
	if len(headers) == 0 {
		return "{}", nil
	}
	if _, err := headerjson.Marshal(headers); err != nil {
		return "", err
	}
	var out strings.Builder
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	err := encoder.Encode(headerjson.Plain(headers))
	return strings.TrimSuffix(out.String(), "\n"), err
}

func (x *call) edit() error {
	_, v, err := x.editing(x.r.URL.Query().Get("ref"))
	if err != nil {
		return err
	}
	return x.show("edit", "Edit and replay", v)
}

// edited reads the form. The preview has what will be sent, with masks in their places, and the edit their values.
func (x *call) edited() (v editView, edit *triage.Edit, err error) {
	form := x.r.PostForm
	original, v, err := x.editing(form.Get("ref"))
	if err != nil {
		return v, nil, err
	}
	if form.Get("base") != v.Base {
		return v, nil, &fault{status: http.StatusConflict, text: "The message has changed since you began to edit it.", hint: "Open the message again, and repeat the edit."}
	}
	body, headers := fromEditable(form.Get("body")), fromEditable(form.Get("headers"))
	before, after := fromEditable(v.Headers), strings.TrimSpace(headers)
	v.NoJSON = json.Valid(v.Message.Body) && !json.Valid([]byte(body))
	v.BodyLines, v.HeadersLines = near(diff(string(v.Message.Body), body)), near(diff(before, after))
	v.Body, v.Headers = editable(strings.ToValidUTF8(body, "\ufffd")), editable(strings.ToValidUTF8(headers, "\ufffd"))
	message := original
	message.Body = []byte(body)
	if message.Headers, v.Wrong = readHeaders(after); v.Wrong != "" {
		return v, nil, nil
	}
	if mask := x.console.options.Mask; mask != nil {
		if message, err = mask.Unmask(original, message); err != nil {
			v.Wrong = faultOf(ofIndex(err)).text
			return v, nil, nil
		}
	}
	return v, &triage.Edit{Body: message.Body, ContentType: original.ContentType, Headers: message.Headers}, nil
}

// readHeaders reads headers with their types, or explains what is wrong.
func readHeaders(text string) (headers map[string]any, wrong string) {
	if text == "" {
		return nil, ""
	}
	decoder := json.NewDecoder(bytes.NewReader([]byte(text)))
	var first map[string]json.RawMessage
	if err := decoder.Decode(&first); err != nil {
		return nil, "The headers are not a JSON object: " + err.Error()
	}
	if decoder.More() {
		return nil, "The headers must be one JSON object, and something follows it."
	}
	headers, err := headerjson.Unmarshal([]byte(text))
	if err == nil {
		_, err = headerjson.Marshal(headers)
	}
	if err != nil {
		return nil, "The headers cannot be used: " + err.Error()
	}
	return headers, ""
}

// preview shows what was changed, and asks. A form that is wrong is shown again.
func (x *call) preview() error {
	v, edit, err := x.edited()
	switch {
	case err != nil:
		return err
	case edit == nil:
		return x.showStatus(http.StatusBadRequest, "edit", "Edit and replay", v)
	}
	v.ID = triage.NewRunID()
	return x.show("preview", "Edit and replay", v)
}

// resend starts a run that replays the edited message.
func (x *call) resend() error {
	v, edit, err := x.edited()
	switch {
	case err != nil:
		return err
	case edit == nil:
		return x.showStatus(http.StatusBadRequest, "edit", "Edit and replay", v)
	}
	return x.startRun(triage.RunPlan{ID: x.r.PostForm.Get("id"), Action: triage.ActionReplay, Refs: []string{v.Message.Ref}, Actor: x.actor(), To: x.r.PostForm.Get("to"), Edit: edit})
}
