package proxyload

import "math"

// Ratios are a figure of ours over that of others; 1 is as good, less is better.
type Ratios struct {
	// Bare is over the bare reverse proxy's.
	Bare float64 `json:"bare"`
	// Nginx is over nginx's; absent when there was none.
	Nginx *float64 `json:"nginx,omitempty"`
}

// LoadReport is what one load showed.
type LoadReport struct {
	// Connections that were open at the same time.
	Connections int `json:"connections"`
	// PaceSeconds is the time that an engine took for a stream; 0 as fast as it went.
	PaceSeconds float64 `json:"paceSeconds"`
	// TTFBRatio compares the median times to the first byte as the client sees them, the
	// engine's own time included.
	TTFBRatio Ratios `json:"ttfbRatio"`
	// TTFBP99Ratio compares their 99th percentiles.
	TTFBP99Ratio Ratios `json:"ttfbP99Ratio"`
	// CPURatio compares the proxies' own processor time per stream.
	CPURatio Ratios `json:"cpuRatio"`
	// P50 and P99 of our time to the first byte, in microseconds.
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
	// Ways are the figures of each way.
	Ways []Figures `json:"ways"`
}

// NewReport compares ours to the others. The figures are those of one load and hold
// the ways [Bare] and [Ours]; [Nginx] may be missing.
func NewReport(load Load, ways []Figures) LoadReport {
	named := map[string]Figures{}
	for _, f := range ways {
		named[f.Name] = f
	}
	ratios := func(of func(Figures) float64) Ratios {
		r := Ratios{Bare: ratio(of(named[Ours]), of(named[Bare]))}
		if nginx, there := named[Nginx]; there {
			over := ratio(of(named[Ours]), of(nginx))
			r.Nginx = &over
		}
		return r
	}
	return LoadReport{
		Connections:  load.Connections,
		PaceSeconds:  load.Pace.Seconds(),
		TTFBRatio:    ratios(func(f Figures) float64 { return f.P50Micros }),
		TTFBP99Ratio: ratios(func(f Figures) float64 { return f.P99Micros }),
		CPURatio:     ratios(cpuOf),
		P50:          named[Ours].P50Micros,
		P99:          named[Ours].P99Micros,
		Ways:         ways,
	}
}

func cpuOf(f Figures) float64 {
	if f.CPUMicros == nil {
		return 0
	}
	return *f.CPUMicros
}

// ratio rounds to three decimals; JSON has no infinity, so anything over nothing is 0.
func ratio(x, y float64) float64 {
	if y == 0 {
		return 0
	}
	return math.Round(1000*x/y) / 1000
}
