package cli

import (
	"strings"
	"unicode/utf8"
)

// table is rows below a heading.
type table struct {
	heading []string
	rows    [][]string
	// below is a line that follows a row. Nil: none does.
	below func(row int) string
	// colour returns the colour of a cell, or "". Nil: no cell has one.
	colour func(row, column int) string
}

// Colours, as codes of terminals.
const (
	red    = "31"
	yellow = "33"
	cyan   = "36"
)

// columnGap is the space between two columns.
const columnGap = 2

// printTable prints rows below a heading, without control characters.
func (c *command) printTable(heading []string, rows [][]string) error {
	return c.print(table{heading: heading, rows: rows})
}

// printSection prints an empty line and a table, unless there are no rows.
func (c *command) printSection(t table) error {
	if len(t.rows) == 0 {
		return nil
	}
	if err := c.printf("\n"); err != nil {
		return err
	}
	return c.print(t)
}

// print prints a table, without control characters.
func (c *command) print(t table) error {
	all := append([][]string{t.heading}, t.rows...)
	widths := make([]int, len(t.heading))
	for i, row := range all {
		cells := make([]string, len(row))
		for column, cell := range row {
			cells[column] = plain(cell)
			widths[column] = max(widths[column], utf8.RuneCountInString(cells[column]))
		}
		all[i] = cells
	}
	var out strings.Builder
	for i, row := range all {
		for column, cell := range row {
			shown := cell
			if t.colour != nil && i > 0 {
				if colour := t.colour(i-1, column); colour != "" {
					shown = c.coded(colour, cell)
				}
			}
			out.WriteString(shown)
			if rest := strings.Join(row[column+1:], ""); rest == "" {
				break // no spaces at the end of a line
			}
			out.WriteString(strings.Repeat(" ", widths[column]-utf8.RuneCountInString(cell)+columnGap))
		}
		out.WriteString("\n")
		if t.below != nil && i > 0 {
			out.WriteString(t.below(i-1) + "\n")
		}
	}
	return c.printf("%s", out.String())
}

// counts is the colour of numbers in a column, unless they are zero or not known.
func (t *table) counts(column int, colour string) {
	others := t.colour
	t.colour = func(row, at int) string {
		switch {
		case at != column && others != nil:
			return others(row, at)
		case at != column || t.rows[row][at] == "0" || t.rows[row][at] == "-":
			return ""
		}
		return colour
	}
}
