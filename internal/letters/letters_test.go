package letters_test

import (
	"bytes"
	"reflect"
	"testing"

	"github.com/rehop/rehop/internal/letters"
	"github.com/rehop/rehop/internal/letters/golden"
)

func TestRead(t *testing.T) {
	t.Parallel()
	for _, s := range golden.Samples() {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			l, r := letters.Read(s.Letter)
			r.FailedAt, r.FirstFailed = r.FailedAt.UTC(), r.FirstFailed.UTC()
			if r != s.Record {
				t.Errorf("record:\n got %+v\nwant %+v", r, s.Record)
			}
			want := s.Original
			want.Source = s.Letter.Source
			if !bytes.Equal(l.Body, want.Body) {
				t.Errorf("body:\n got %s\nwant %s", l.Body, want.Body)
			}
			if !reflect.DeepEqual(l, want) {
				t.Errorf("message:\n got %+v\nwant %+v", l, want)
			}
			again, none := letters.Read(l)
			if none.By != "" && none.By != "dramatiq" && none.By != "Celery" { // their messages are known without a failure, too
				t.Errorf("what is replayed has a record again: %+v", none)
			}
			if !reflect.DeepEqual(again, l) {
				t.Errorf("read again:\n got %+v\nwant %+v", again, l)
			}
		})
	}
}
