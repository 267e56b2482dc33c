package main

import "strings"

// box draws a table with lines around it. Cells are cut to their column, so
// that it is never wider than it says.
type box struct {
	widths []int // characters of each column, without the space around it
	head   []string
	rows   [][]string
	// look colours a cell; it gets the text after it was padded.
	look func(row, column int, cell string) string
}

// String draws it, each line indented by one space.
func (b box) String() string {
	var out strings.Builder
	b.rule(&out, "┌", "┬", "┐")
	if b.head != nil {
		b.line(&out, -1, b.head)
		b.rule(&out, "├", "┼", "┤")
	}
	for i, row := range b.rows {
		b.line(&out, i, row)
	}
	b.rule(&out, "└", "┴", "┘")
	return out.String()
}

func (b box) rule(out *strings.Builder, left, middle, right string) {
	for i, w := range b.widths {
		corner := middle
		if i == 0 {
			corner = " " + left
		}
		out.WriteString(corner + strings.Repeat("─", w+2))
	}
	out.WriteString(right + "\n")
}

func (b box) line(out *strings.Builder, row int, cells []string) {
	out.WriteString(" ")
	for i, w := range b.widths {
		cell := ""
		if i < len(cells) {
			cell = cells[i]
		}
		cell = pad(clip(cell, w), w)
		if b.look != nil {
			cell = b.look(row, i, cell)
		}
		out.WriteString("│ " + cell + " ")
	}
	out.WriteString("│\n")
}
