package console

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"testing"
)

var (
	palette = regexp.MustCompile(`\{[^{}]*--page:[^{}]*\}`)
	colour  = regexp.MustCompile(`--([\w-]+):#([0-9a-f]{3,6})`)
)

// Texts have a contrast of 4.5 with what is behind them, and edges of controls one of 3, in every theme (WCAG 2.2 AA).
func TestContrast(t *testing.T) {
	style, err := assetFiles.ReadFile("assets/console.css")
	if err != nil {
		t.Fatal(err)
	}
	themes := palette.FindAllString(string(style), -1)
	if len(themes) != 4 { // light and dark, by the browser and by the switch
		t.Fatalf("found %d palettes, want 4", len(themes))
	}
	for i, theme := range themes {
		colours := make(map[string]float64)
		for _, m := range colour.FindAllStringSubmatch(theme, -1) {
			colours[m[1]] = luminance(t, m[2])
		}
		for _, pair := range []struct {
			front, back string
			want        float64
		}{
			{"text", "page", 4.5}, {"text", "soft", 4.5}, {"text", "bad-soft", 4.5}, {"quiet", "page", 4.5}, {"quiet", "soft", 4.5}, {"quiet", "bad-soft", 4.5}, {"link", "page", 4.5}, {"link", "soft", 4.5},
			{"link", "bad-soft", 4.5}, {"on-main", "main", 4.5}, {"bad", "page", 4.5}, {"bad", "soft", 4.5}, {"good", "page", 4.5}, {"mark", "mark-soft", 4.5}, {"edge", "page", 3}, {"edge", "soft", 3}, {"main", "page", 3},
		} {
			front, ok := colours[pair.front]
			back, there := colours[pair.back]
			if !ok || !there {
				t.Errorf("palette %d has no %s or %s", i+1, pair.front, pair.back)
				continue
			}
			if got := (math.Max(front, back) + 0.05) / (math.Min(front, back) + 0.05); got < pair.want {
				t.Errorf("palette %d: %s on %s has the contrast %.2f, want %.1f", i+1, pair.front, pair.back, got, pair.want)
			}
		}
	}
	if themes[0][1:] == themes[1][1:] || fmt.Sprint(colour.FindAllString(themes[0], -1)) != fmt.Sprint(colour.FindAllString(themes[2], -1)) ||
		fmt.Sprint(colour.FindAllString(themes[1], -1)) != fmt.Sprint(colour.FindAllString(themes[3], -1)) {
		t.Error("the switch must have the same palettes as the browser's choice")
	}
}

// luminance is the relative luminance of a color.
func luminance(t *testing.T, hex string) float64 {
	t.Helper()
	if len(hex) == 3 {
		hex = string([]byte{hex[0], hex[0], hex[1], hex[1], hex[2], hex[2]})
	}
	var sum float64
	for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
		n, err := strconv.ParseUint(hex[2*i:2*i+2], 16, 8)
		if err != nil {
			t.Fatal(err)
		}
		v := float64(n) / 255
		if v <= 0.04045 {
			v /= 12.92
		} else {
			v = math.Pow((v+0.055)/1.055, 2.4)
		}
		sum += weight * v
	}
	return sum
}
