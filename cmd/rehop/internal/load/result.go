package load

import "time"

// Result is what was measured.
type Result struct {
	Broker    string `json:"broker"` // product and version
	Mode      Mode   `json:"mode"`
	QueueType string `json:"queue_type"`
	Size      int    `json:"size"`

	Published *Flow `json:"published,omitempty"`
	Consumed  *Flow `json:"consumed,omitempty"`
	// Refused is how many messages the broker did not confirm, or returned.
	Refused int64 `json:"refused"`
	// Left is how many messages were in the queue at the end.
	Left int64 `json:"left"`
	// Timeline has the messages of each moment.
	Timeline []Moment `json:"timeline"`
}

// Flow is one direction. Times are in seconds.
type Flow struct {
	Workers  int     `json:"workers"`
	Messages int64   `json:"messages"`
	Seconds  float64 `json:"seconds"`
	Rate     float64 `json:"rate"` // messages per second
	// Latency is from publishing to the confirm, or to the delivery.
	Latency *Latency `json:"latency,omitempty"`
}

// Latency is how long messages took, in seconds.
type Latency struct {
	P50  float64 `json:"p50"`
	P90  float64 `json:"p90"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p999"`
	Max  float64 `json:"max"`
}

// Moment is a part of the run, with the messages in it.
type Moment struct {
	At        float64 `json:"at"` // its end, in seconds since the beginning
	Published int64   `json:"published"`
	Consumed  int64   `json:"consumed"`
}

func flowOf(workers int, took time.Duration, h *histogram) *Flow {
	f := &Flow{Workers: workers, Messages: h.n, Seconds: took.Seconds(), Latency: &Latency{
		P50: h.quantile(.5).Seconds(), P90: h.quantile(.9).Seconds(), P99: h.quantile(.99).Seconds(), P999: h.quantile(.999).Seconds(),
		Max: h.longest.Seconds(),
	}}
	if took > 0 {
		f.Rate = float64(h.n) / took.Seconds()
	}
	return f
}
