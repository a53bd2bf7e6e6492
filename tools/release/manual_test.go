package main

import (
	"testing"
	"time"
)

func TestManual(t *testing.T) {
	got := string(manual("# The rehop command\n\nRun `rehop up --json`, see [flows](flows.md).\n.dot\n\n## Exit codes\n\n"+
		"| code | meaning |\n|---|---|\n| `a\\|b` | **all** |\n\n    rehop up\n\n```sh\nrehop up \\\n```\n- one\n<!-- no -->\n", "v0.1.0", time.Unix(0, 0).UTC()))
	want := `.TH REHOP 1 1970-01-01 "rehop 0.1.0" "User Commands"
.SH NAME
rehop \- reliable messaging for RabbitMQ
.SH SYNOPSIS
.B rehop
.I command
[\fIflags\fR]
.SH DESCRIPTION
.PP
Run \fBrehop up \-\-json\fR, see flows.
\&.dot
.PP
.SH "EXIT CODES"
.PP
.TP
\fBa|b\fR
\fBall\fR
.PP
.PP
.RS 4
.nf
rehop up
.fi
.RE
.PP
.PP
.RS 4
.nf
rehop up \e
.fi
.RE
.IP \(bu 2
one
.PP
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
