package load

import (
	"fmt"
	"html"
	"io"
	"math"
	"strings"
)

// The plot has two fields: messages per second over time, and below it latencies by percentile.
const (
	plotWidth, plotHeight   = 760, 560
	fieldLeft, fieldWidth   = 80, 640
	fieldHeight             = 180
	rateTop, latencyTop     = 60, 320
	publishInk, consumeInk  = "#1f6feb", "#d29922"
	axisInk, gridInk, paper = "#57606a", "#d8dee4", "#ffffff"
)

// Plot writes the result as an SVG image.
func (r Result) Plot(w io.Writer) error {
	var svg strings.Builder
	put := func(format string, args ...any) { fmt.Fprintf(&svg, format+"\n", args...) }
	put(`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`, plotWidth, plotHeight, plotWidth, plotHeight)
	put(`<rect width="100%%" height="100%%" fill="%s"/>`, paper)
	put(`<text x="%d" y="24" font-size="15" fill="%s">%s</text>`, fieldLeft, axisInk, html.EscapeString(r.title()))
	r.plotRates(put)
	r.plotLatencies(put)
	put("</svg>")
	_, err := io.WriteString(w, svg.String())
	return err
}

func (r Result) title() string {
	return fmt.Sprintf("%s, %s queue, %d bytes", r.Broker, r.QueueType, r.Size)
}

// curve is a line in a field, its points from 0 to 1 to the right and upwards.
type curve struct {
	ink, name string
	points    [][2]float64
}

// plotField draws a frame with marks at the left and below, and the curves in it.
func plotField(put func(string, ...any), top int, title string, marks, below []mark, curves []curve) {
	bottom := top + fieldHeight
	y := func(up float64) float64 { return float64(bottom) - up*fieldHeight }
	x := func(right float64) float64 { return fieldLeft + right*fieldWidth }
	put(`<text x="%d" y="%d" fill="%s">%s</text>`, fieldLeft, top-12, axisInk, title)
	for _, m := range marks {
		put(`<line x1="%d" x2="%d" y1="%.1f" y2="%.1f" stroke="%s"/>`, fieldLeft, fieldLeft+fieldWidth, y(m.at), y(m.at), gridInk)
		put(`<text x="%d" y="%.1f" text-anchor="end" fill="%s">%s</text>`, fieldLeft-8, y(m.at)+4, axisInk, m.text)
	}
	for _, m := range below {
		put(`<text x="%.1f" y="%d" text-anchor="middle" fill="%s">%s</text>`, x(m.at), bottom+18, axisInk, m.text)
	}
	put(`<rect x="%d" y="%d" width="%d" height="%d" fill="none" stroke="%s"/>`, fieldLeft, top, fieldWidth, fieldHeight, axisInk)
	for i, c := range curves {
		points := make([]string, len(c.points))
		for j, p := range c.points {
			points[j] = fmt.Sprintf("%.1f,%.1f", x(p[0]), y(p[1]))
		}
		put(`<polyline fill="none" stroke="%s" stroke-width="2" points="%s"/>`, c.ink, strings.Join(points, " "))
		put(`<text x="%d" y="%d" text-anchor="end" fill="%s">%s</text>`, fieldLeft+fieldWidth-110*i, top-12, c.ink, c.name)
	}
}

type mark struct {
	at   float64
	text string
}

func (r Result) plotRates(put func(string, ...any)) {
	end, highest := 0.0, 0.0
	rates := func(of func(Moment) int64) (rates [][2]float64) {
		last := 0.0
		for _, m := range r.Timeline {
			if span := m.At - last; span > moment.Seconds()/2 { // the last moment may be too short
				rates = append(rates, [2]float64{m.At, float64(of(m)) / span})
				highest = max(highest, float64(of(m))/span)
			}
			last = m.At
			end = max(end, m.At)
		}
		return rates
	}
	published, consumed := rates(func(m Moment) int64 { return m.Published }), rates(func(m Moment) int64 { return m.Consumed })
	ceiling := roundUp(highest)
	scale := func(points [][2]float64) [][2]float64 {
		for i := range points {
			points[i][0] /= max(end, math.SmallestNonzeroFloat64)
			points[i][1] /= ceiling
		}
		return points
	}
	var curves []curve
	if r.Published != nil {
		curves = append(curves, curve{publishInk, "published", scale(published)})
	}
	if r.Consumed != nil {
		curves = append(curves, curve{consumeInk, "consumed", scale(consumed)})
	}
	var marks, below []mark
	for _, part := range []float64{0, .25, .5, .75, 1} {
		marks = append(marks, mark{part, fmt.Sprintf("%.0f", part*ceiling)})
		below = append(below, mark{part, fmt.Sprintf("%.1f s", part*end)})
	}
	plotField(put, rateTop, "messages per second", marks, below, curves)
}

// plotLatencies has a logarithmic axis, to show how many times longer the slowest messages take.
func (r Result) plotLatencies(put func(string, ...any)) {
	var curves []curve
	low, high := math.Inf(1), math.Inf(-1)
	flows := []struct {
		*Flow
		ink, name string
	}{{r.Published, publishInk, "to the confirm"}, {r.Consumed, consumeInk, "to the delivery"}}
	for _, f := range flows {
		if f.Flow == nil || f.Latency == nil || f.Messages == 0 {
			continue
		}
		c := curve{ink: f.ink, name: f.name}
		for i, value := range []float64{f.Latency.P50, f.Latency.P90, f.Latency.P99, f.Latency.P999, f.Latency.Max} {
			up := math.Log10(max(value, 1e-6))
			low, high = min(low, math.Floor(up)), max(high, math.Ceil(up))
			c.points = append(c.points, [2]float64{float64(i) / 4, up})
		}
		curves = append(curves, c)
	}
	if len(curves) == 0 {
		return
	}
	if high == low {
		high++
	}
	for _, c := range curves {
		for i := range c.points {
			c.points[i][1] = (c.points[i][1] - low) / (high - low)
		}
	}
	var marks []mark
	for up := low; up <= high; up++ {
		marks = append(marks, mark{(up - low) / (high - low), fmt.Sprintf("%g ms", math.Pow(10, up+3))})
	}
	plotField(put, latencyTop, "latency", marks, []mark{{0, "p50"}, {.25, "p90"}, {.5, "p99"}, {.75, "p99.9"}, {1, "max"}}, curves)
}

// roundUp returns the next number that reads well on an axis.
func roundUp(v float64) float64 {
	if v <= 0 {
		return 1
	}
	magnitude := math.Pow(10, math.Floor(math.Log10(v)))
	for _, step := range []float64{1, 2, 4, 5, 8, 10} {
		if v <= step*magnitude {
			return step * magnitude
		}
	}
	return v
}
