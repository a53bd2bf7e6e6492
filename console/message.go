package console

import (
	"fmt"
	"mime"
	"net/http"
	"strconv"
	"strings"

	"github.com/rehop/rehop/admin"
)

// messageView is the page of one failed message.
type messageView struct {
	Source   source
	ID       string // of the message, for links; in Message it may be masked
	Message  admin.Message
	Contents contents
	// Same is how many messages have this id, and Number which of them this is. Few programs use an id twice.
	Same, Number int
	Pick         string // the id as a value of a form
	MayAct       bool
}

// contents is what a page shows of a message: its failure, its properties, its headers and its body.
type contents struct {
	Message                     admin.Message
	Headers                     []headerRow
	Payload                     payload
	Copies                      []copyText
	BodyLink, TextLink, HexLink string // of a download, and of the other views
}

// contentsOf shows a message. Its page is at link, and a download of its body at download.
func (x *call) contentsOf(m admin.Message, link, download string) contents {
	return contents{Message: m, Headers: headerRows(m.Headers), Payload: payloadOf(m.Body, x.r.URL.Query().Get("view")), Copies: copiesOf(m, x.destination()), BodyLink: download, TextLink: link + "&view=text", HexLink: link + "&view=hex"}
}

// maxSame is how many messages with the same id are looked for.
const maxSame = 100

// find returns the message that the address of the page names. Number is which of several with the same id.
func (x *call) find() (v messageView, err error) {
	query := x.r.URL.Query()
	from, err := sourceOf(query)
	if err == nil && !query.Has("id") {
		err = &fault{status: http.StatusBadRequest, text: "The address has no id of a message.", hint: "Choose a message in the list of a queue."}
	}
	if err != nil {
		return v, err
	}
	v = messageView{Source: from, ID: query.Get("id"), Pick: pickOf(query.Get("id")), Number: 1, MayAct: x.may(Operator)}
	if n, err := strconv.Atoi(query.Get("number")); err == nil && n > 0 {
		v.Number = n
	}
	a, ctx, end, err := x.broker()
	if err != nil {
		return v, err
	}
	defer end()
	err = v.Source.in(a).Each(ctx, maxSame, admin.Filter{IDs: []string{query.Get("id")}}, func(m admin.Message) error {
		if v.Same++; v.Same == v.Number {
			v.Message = x.console.mask(m)
		}
		return nil
	})
	if err == nil && v.Same < v.Number {
		err = &fault{status: http.StatusNotFound, text: "There is no such message in the queue.", hint: "It may have been replayed or discarded. A broker that delays returned messages hides it for a while."}
	}
	return v, err
}

func (x *call) message() error {
	v, err := x.find()
	if err != nil {
		return err
	}
	v.Contents = x.contentsOf(v.Message, v.Link("message"), v.Link("body"))
	return x.show("message", "Message", v)
}

// Link is the address of the message on a page.
func (v messageView) Link(page string) string {
	return v.Source.message(page, v.ID) + "&number=" + strconv.Itoa(v.Number)
}

// Numbers are the other messages with the same id.
func (v messageView) Numbers() (all []int) {
	for n := 1; n <= v.Same && v.Same > 1; n++ {
		all = append(all, n)
	}
	return all
}

// Of is the address of another message with the same id.
func (v messageView) Of(n int) string {
	return v.Source.message("message", v.ID) + "&number=" + strconv.Itoa(n)
}

// body is a download of the bytes of a message's body, unchanged.
func (x *call) body() error {
	v, err := x.find()
	if err != nil {
		return err
	}
	x.download(v.Message.ID, v.Message.Body)
	return nil
}

// download answers with a body as a file.
func (x *call) download(id string, body []byte) {
	x.attach(fileName(id)+".bin", "application/octet-stream")
	x.w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	if x.r.Method != http.MethodHead {
		_ = x.send(body) // the client may have gone
	}
}

// attach makes the answer a file. A browser never shows it as a page of the console.
func (x *call) attach(name, kind string) {
	h := x.w.Header()
	h.Set("Content-Type", kind)
	h.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": name}))
	h.Set("Content-Security-Policy", "default-src 'none'; sandbox")
}

// fileName is a text as the name of a file on any system.
func fileName(text string) string {
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' {
			return r
		}
		return -1
	}, text)
	name, _ = cut(name, 60)
	return fmt.Sprintf("message-%s", name)
}
