package bench

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
)

// table holds the samples of all rounds by scenario and library.
type table struct {
	libraries []string
	samples   map[string]map[string][]sample
}

func newTable(contenders []contender) *table {
	t := &table{samples: make(map[string]map[string][]sample)}
	for _, c := range contenders {
		t.libraries = append(t.libraries, c.name())
	}
	return t
}

func (t *table) add(scenario, library string, s sample) {
	if t.samples[scenario] == nil {
		t.samples[scenario] = make(map[string][]sample)
	}
	t.samples[scenario][library] = append(t.samples[scenario][library], s)
}

// print shows medians. A ratio is the median of the ratios to raw within each round, which noise
// that lasts longer than a round does not touch.
func (t *table) print(w io.Writer, scenarios []string) {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "scenario\tlibrary\tmsgs/s\t(min–max)\t× raw\tcpu µs/msg\t× raw\tallocs/msg\t× raw\tB/msg\t")
	for _, scenario := range scenarios {
		base := t.samples[scenario][raw{}.name()]
		for _, library := range t.libraries {
			s := t.samples[scenario][library]
			rates := each(s, sample.rate)
			fmt.Fprintf(tw, "%s\t%s\t%.0f\t(%.0f–%.0f)\t%s\t%.1f\t%s\t%.1f\t%s\t%.0f\t\n", scenario, library,
				median(rates), slices.Min(rates), slices.Max(rates), ratio(s, base, sample.rate),
				median(each(s, cpu)), ratio(s, base, cpu), median(each(s, allocs)), ratio(s, base, allocs), median(each(s, bytes)))
		}
	}
	_ = tw.Flush()
}

func cpu(s sample) float64    { return s.cpu }
func allocs(s sample) float64 { return s.allocs }
func bytes(s sample) float64  { return s.bytes }

func ratio(s, base []sample, of func(sample) float64) string {
	if len(base) != len(s) {
		return "–"
	}
	ratios := make([]float64, len(s))
	for i := range s {
		ratios[i] = of(s[i]) / of(base[i])
	}
	return fmt.Sprintf("%.2f", median(ratios))
}

func each(samples []sample, of func(sample) float64) []float64 {
	out := make([]float64, len(samples))
	for i, s := range samples {
		out[i] = of(s)
	}
	return out
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}
