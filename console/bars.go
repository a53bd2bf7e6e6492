package console

import (
	"fmt"
	"time"

	"github.com/rehop/rehop/triage"
)

// chart is the failures of each hour as bars. The picture is made of numbers only.
type chart struct {
	Bars          []bar
	Width, Height int
	Sum           int
	Label         string // the same in words, for who does not see the picture
}

// bar is one hour.
type bar struct {
	Hour                time.Time
	Failures            int
	X, Y, Width, Height int
}

const (
	barWidth  = 5
	barGap    = 1
	barHeight = 32
)

// chartOf draws the last hours, including those in which nothing failed.
func chartOf(history []triage.Bar, hours int, now time.Time) chart {
	byHour := make(map[int64]int, len(history))
	for _, b := range history {
		byHour[b.Hour.Unix()] = b.Failures
	}
	c := chart{Width: hours * (barWidth + barGap), Height: barHeight}
	most := bar{}
	for i := range hours {
		hour := now.UTC().Truncate(time.Hour).Add(time.Duration(i+1-hours) * time.Hour)
		b := bar{Hour: hour, Failures: byHour[hour.Unix()], X: i * (barWidth + barGap), Width: barWidth}
		if c.Sum += b.Failures; b.Failures > most.Failures {
			most = b
		}
		c.Bars = append(c.Bars, b)
	}
	for i := range c.Bars {
		b := &c.Bars[i]
		if b.Failures > 0 {
			b.Height = max(1, b.Failures*(barHeight-1)/most.Failures) // one failure is seen next to a million
		}
		b.Y = barHeight - b.Height
	}
	c.Label = fmt.Sprintf("%s in the last %d hours", counted(c.Sum, "failure"), hours)
	if c.Sum > 0 {
		c.Label += fmt.Sprintf(", most at %s UTC: %s", most.Hour.Format("2006-01-02 15:04"), number(most.Failures))
	}
	return c
}

// Failing are the hours in which messages failed, the newest first.
func (c chart) Failing() (some []bar) {
	for i := len(c.Bars) - 1; i >= 0; i-- {
		if c.Bars[i].Failures > 0 {
			some = append(some, c.Bars[i])
		}
	}
	return some
}
