package report

import (
	"math"
	"time"
)

// Histogram counts times in buckets. Bucket i holds what is above [BucketSeconds] of
// i - 1 and not above that of i; trailing empty buckets are left out.
type Histogram []int

// Bounds of a histogram.
const (
	bucketLeast     = 0.01 // seconds, of bucket 0
	bucketsADecade  = 20
	bucketsInAll    = 5*bucketsADecade + 1 // up to 1,000 s
	leastHistograms = 20                   // times that a curve needs to mean anything
)

// BucketSeconds is the upper bound of a bucket: 0.01 s of the first, 20 buckets a decade,
// 1,000 s of the last, which also holds what is longer.
func BucketSeconds(i int) float64 {
	return bucketLeast * math.Pow(10, float64(i)/bucketsADecade)
}

// HistogramOf counts times; nil when there are none.
func HistogramOf(times []time.Duration) Histogram {
	if len(times) == 0 {
		return nil
	}
	all := make(Histogram, bucketsInAll)
	last := 0
	for _, t := range times {
		i := 0
		if s := t.Seconds(); s > bucketLeast {
			// What lies on a bound belongs below it, whatever the logarithm's last digit.
			i = min(bucketsInAll-1, int(math.Ceil(math.Log10(s/bucketLeast)*bucketsADecade-1e-9)))
		}
		all[i]++
		last = max(last, i)
	}
	return all[:last+1]
}

// Count is the number of times.
func (h Histogram) Count() int {
	n := 0
	for _, count := range h {
		n += count
	}
	return n
}

// add adds another histogram up.
func (h Histogram) add(other Histogram) Histogram {
	sum := make(Histogram, max(len(h), len(other)))
	for i := range sum {
		if i < len(h) {
			sum[i] += h[i]
		}
		if i < len(other) {
			sum[i] += other[i]
		}
	}
	return sum
}

// shares returns for each bucket which share of the times lies not above it, 0 to 1.
func (h Histogram) shares() []float64 {
	out := make([]float64, len(h))
	sum, all := 0, float64(h.Count())
	for i, n := range h {
		sum += n
		out[i] = float64(sum) / all
	}
	return out
}
