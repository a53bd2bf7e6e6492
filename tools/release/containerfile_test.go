package main

import (
	"reflect"
	"strings"
	"testing"
)

// Only the last stage counts.
func TestContainerfile(t *testing.T) {
	got, err := parseContainerfile(`# a comment
FROM golang AS build
COPY . .
ENV CGO_ENABLED=0
FROM scratch
COPY --from=build /out/rehop /usr/local/bin/rehop
COPY --from=build --chown=7:7 /out/state /var/lib/rehop
USER 7:7
VOLUME /var/lib/rehop
EXPOSE 5672 15672
STOPSIGNAL SIGTERM
ENTRYPOINT ["/usr/local/bin/rehop"]
CMD ["up", "--data"]
`)
	want := containerfile{
		user: "7:7", stopSignal: "SIGTERM", volumes: []string{"/var/lib/rehop"}, ports: []string{"5672", "15672"},
		entrypoint: []string{"/usr/local/bin/rehop"}, command: []string{"up", "--data"},
		copies: []copied{{"/out/rehop", "/usr/local/bin/rehop", 0}, {"/out/state", "/var/lib/rehop", 7}},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
}

// What the release cannot do like podman is refused, with the line.
func TestContainerfileRefused(t *testing.T) {
	for text, want := range map[string]string{
		"FROM scratch\nHEALTHCHECK CMD true": "line 2 of deploy/Containerfile: the release does not know the instruction HEALTHCHECK",
		"COPY --chown=rehop a b":             "want a number",
		"COPY --chown=1:2 a b":               "want a number",
		"COPY --link a b":                    "--link",
		"COPY a b c":                         "COPY has 3 names",
		"CMD rehop up":                       "line 1",
	} {
		if _, err := parseContainerfile(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want an error with %q", text, err, want)
		}
	}
	i := image{file: containerfile{copies: []copied{{from: "/etc/passwd", to: "/etc/passwd"}}}}
	if _, err := i.layer(nil); err == nil || !strings.Contains(err.Error(), "/etc/passwd") {
		t.Errorf("got %v, want an error about a file that the release does not have", err)
	}
}
