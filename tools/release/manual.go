package main

import (
	"fmt"
	"regexp"
	"strings"
	"time"
)

// page is a manual page that is being written.
type page struct {
	out   strings.Builder
	fence bool // inside a block of code
	row   int  // of a table
}

// manual is docs/cli.md as a page for man. It knows as much Markdown as that file has.
func manual(markdown string, v version, at time.Time) []byte {
	var p page
	fmt.Fprintf(&p.out, ".TH REHOP 1 %s \"rehop %s\" \"User Commands\"\n", at.Format(time.DateOnly), v.number())
	p.out.WriteString(".SH NAME\nrehop \\- reliable messaging for RabbitMQ\n")
	p.out.WriteString(".SH SYNOPSIS\n.B rehop\n.I command\n[\\fIflags\\fR]\n.SH DESCRIPTION\n")
	for line := range strings.SplitSeq(markdown, "\n") {
		p.add(line)
	}
	return []byte(p.out.String())
}

// add adds a line of Markdown.
func (p *page) add(line string) {
	if strings.HasPrefix(line, "```") {
		p.fence = !p.fence
		p.out.WriteString(map[bool]string{true: ".PP\n.RS 4\n.nf\n", false: ".fi\n.RE\n"}[p.fence])
		return
	}
	if p.fence {
		p.out.WriteString(quoted(line) + "\n")
		return
	}
	if !strings.HasPrefix(line, "|") {
		p.row = 0
	}
	switch {
	case strings.HasPrefix(line, "# "), strings.HasPrefix(line, "<!--"):
	case strings.HasPrefix(line, "## "):
		p.out.WriteString(".SH \"" + strings.ToUpper(inline(line[3:])) + "\"\n")
	case strings.HasPrefix(line, "### "):
		p.out.WriteString(".SS \"" + inline(line[4:]) + "\"\n")
	case strings.HasPrefix(line, "|"):
		p.addRow(line)
	case strings.HasPrefix(line, "    "):
		p.out.WriteString(".PP\n.RS 4\n.nf\n" + quoted(strings.TrimSpace(line)) + "\n.fi\n.RE\n")
	case strings.HasPrefix(line, "- "):
		p.out.WriteString(".IP \\(bu 2\n" + inline(line[2:]) + "\n")
	case line == "":
		p.out.WriteString(".PP\n")
	default:
		p.out.WriteString(inline(strings.TrimSpace(line)) + "\n")
	}
}

var cellEnd = regexp.MustCompile(`([^\\])\|`)

// addRow adds a row of a table: what its first cell names, and what the others have to report about it. The first two rows are its head.
func (p *page) addRow(line string) {
	if p.row++; p.row <= 2 {
		return
	}
	cells := strings.Split(cellEnd.ReplaceAllString(strings.Trim(line, "| "), "$1\x00"), "\x00")
	for i, cell := range cells {
		cells[i] = inline(strings.ReplaceAll(strings.TrimSpace(cell), `\|`, "|"))
	}
	p.out.WriteString(".TP\n" + cells[0] + "\n" + strings.Join(cells[1:], ". ") + "\n")
}

var (
	pageLink = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	codeText = regexp.MustCompile("`([^`]*)`")
	boldText = regexp.MustCompile(`\*\*([^*]+)\*\*`)
)

// inline is a line of text in the language of man.
func inline(text string) string {
	text = quoted(pageLink.ReplaceAllString(text, "$1"))
	return boldText.ReplaceAllString(codeText.ReplaceAllString(text, `\fB$1\fR`), `\fB$1\fR`)
}

var escapes = strings.NewReplacer(`\`, `\e`, "-", `\-`, "^", `\(ha`, "~", `\(ti`)

// quoted is a line that man prints as it stands.
func quoted(text string) string {
	text = escapes.Replace(text)
	if strings.HasPrefix(text, ".") || strings.HasPrefix(text, "'") {
		return `\&` + text
	}
	return text
}
