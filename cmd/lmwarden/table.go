package main

import (
	"io"
	"strings"
	"unicode/utf8"
)

// notReported stands for a value that the engine or the card does not give: absent
// is not 0.
const notReported = "not reported"

// style is a colour of a terminal.
type style string

// Styles of a cell.
const (
	plain  style = ""
	faint  style = "2"
	green  style = "32"
	yellow style = "33"
	red    style = "31"
)

// cell is one value of a table.
type cell struct {
	text  string
	style style
}

// table is aligned by its widest cells. Numbers are to the right.
type table struct {
	headings []string
	right    map[int]bool // columns to be aligned to the right
	rows     [][]cell
	colour   bool
}

// newTable makes a table; a heading that begins with > belongs to a column of numbers.
func (a *app) newTable(headings ...string) *table {
	t := &table{right: make(map[int]bool), colour: a.colour()}
	for i, h := range headings {
		h, numeric := strings.CutPrefix(h, ">")
		t.headings = append(t.headings, h)
		t.right[i] = numeric
	}
	return t
}

// add appends a row of plain texts and of cells.
func (t *table) add(values ...any) {
	row := make([]cell, len(values))
	for i, v := range values {
		switch v := v.(type) {
		case cell:
			row[i] = v
		case string:
			row[i] = cell{text: v}
		}
	}
	t.rows = append(t.rows, row)
}

// print writes headings and rows with two spaces between the columns.
func (t *table) print(w io.Writer) {
	widths := make([]int, len(t.headings))
	head := make([]cell, len(t.headings))
	for i, h := range t.headings {
		head[i] = cell{h, faint}
		widths[i] = utf8.RuneCountInString(h)
	}
	for _, row := range t.rows {
		for i, c := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(c.text))
		}
	}
	for _, row := range append([][]cell{head}, t.rows...) {
		t.printRow(w, row, widths)
	}
}

func (t *table) printRow(w io.Writer, row []cell, widths []int) {
	var b strings.Builder
	for i, c := range row {
		pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(c.text))
		if i > 0 {
			b.WriteString("  ")
		}
		if t.right[i] {
			b.WriteString(pad)
		}
		b.WriteString(paint(c, t.colour))
		if !t.right[i] && i < len(row)-1 {
			b.WriteString(pad)
		}
	}
	_, _ = io.WriteString(w, strings.TrimRight(b.String(), " ")+"\n")
}

// paint adds the colour of a cell where colours are wanted.
func paint(c cell, colour bool) string {
	if !colour || c.style == plain || c.text == "" {
		return c.text
	}
	return "\x1b[" + string(c.style) + "m" + c.text + "\x1b[0m"
}

// pairs prints names and values below each other.
func (a *app) pairs(w io.Writer, values ...string) {
	width := 0
	for i := 0; i < len(values); i += 2 {
		width = max(width, utf8.RuneCountInString(values[i]))
	}
	for i := 0; i+1 < len(values); i += 2 {
		pad := strings.Repeat(" ", width-utf8.RuneCountInString(values[i]))
		_, _ = io.WriteString(w, paint(cell{values[i], faint}, a.colour())+pad+"  "+values[i+1]+"\n")
	}
}
