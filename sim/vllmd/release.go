package vllmd

import (
	"fmt"
	"regexp"
	"strconv"
)

// release is a minor version of vLLM: 24 is 0.24.
type release int

// The releases that can be played, and the one that is unless another is asked for: the
// one that this package is held against.
const (
	oldestRelease  release = 19
	defaultRelease release = 32
	newestRelease  release = 33
)

var versionPattern = regexp.MustCompile(`^v?0\.(\d{1,3})(?:\.(\d{1,3}))?$`)

// parseVersion reads 0.24, v0.24 or 0.24.1. The text is what the engine says of itself.
func parseVersion(text string) (version string, r release, err error) {
	m := versionPattern.FindStringSubmatch(text)
	if m == nil {
		return "", 0, fmt.Errorf("%q is no version of vLLM; give one such as 0.24 or 0.24.1", text)
	}
	n, _ := strconv.Atoi(m[1]) // at most three digits
	if r = release(n); r < oldestRelease || r > newestRelease {
		return "", 0, fmt.Errorf("vLLM %s is not simulated; give a version from 0.%d to 0.%d", text, oldestRelease, newestRelease)
	}
	patch := m[2]
	if patch == "" {
		patch = "0"
	}
	return "0." + m[1] + "." + patch, r, nil
}

// feature is something that clients, routers or supervisors see and that came or went
// with a release.
type feature uint8

const (
	// Metrics.
	waitingReasons    feature = iota + 1 // num_requests_waiting_by_reason
	recomputedTokens                     // prompt_tokens_recomputed
	cacheSizeLabels                      // cache_config_info says how many tokens fit
	cachedBySource                       // prompt_tokens_cached_by_source
	preemptionsCount                     // request_num_preemptions
	admissionRejected                    // admission_rejections

	// Bodies.
	zeroCached         // cached_tokens is reported when it is 0, too
	createdTokens      // created_cache_tokens and cache_creation_input_tokens
	multimodalTokens   // multimodal_tokens
	messagesCache      // cache_read_input_tokens on /v1/messages
	systemFingerprint  // system_fingerprint
	perRequestMetrics  // metrics, with --enable-per-request-metrics
	messagesSalt       // cache_salt on /v1/messages
	aliasesInNotFound  // "Valid aliases: ..." when there is no such model
	drainRefusesAsDead // status 500 for a request in a drain, and not an empty answer

	// Data parallel deployments.
	tiesRotate     // equally loaded ranks take turns
	loadIsReported // ranks of a dense model tell their load; the score is a new one too
	denseExternal  // one process for each rank of a dense model is accepted

	// The log.
	oneSizeLine   // cache size and concurrency in one line
	compileTook   // "torch.compile took", which was "takes"
	shutdownTrail // "[shutdown] ..." lines

	// Defaults.
	utilization92 // 0.92 of the memory, which was 0.9
)

// span is the life of a feature: since a release, up to and with another; 0 is open.
type span struct{ since, until release }

// spans is what differs between the releases. What is not here is the same in all of
// them. Where only the date of a change is known, the release is the first that was cut
// after it, so it may be off by one. Of 0.29 to 0.31 little is known: what 0.28 did not
// have and 0.32 has is taken to have come with 0.29.
var spans = map[feature]span{
	waitingReasons:    {since: 20},
	recomputedTokens:  {until: 19},
	cacheSizeLabels:   {since: 24},
	cachedBySource:    {since: 29},
	preemptionsCount:  {since: 29},
	admissionRejected: {since: 29},

	zeroCached:         {since: 24},
	createdTokens:      {since: 27},
	multimodalTokens:   {since: 28},
	messagesCache:      {since: 24},
	systemFingerprint:  {since: 21},
	perRequestMetrics:  {since: 25},
	messagesSalt:       {since: 28},
	aliasesInNotFound:  {since: 32},
	drainRefusesAsDead: {since: 29},

	tiesRotate:     {since: 25},
	loadIsReported: {since: 27},
	denseExternal:  {until: 20},

	oneSizeLine:   {since: 28},
	compileTook:   {since: 20},
	shutdownTrail: {since: 23},

	utilization92: {since: 20},
}

// flagSpans is the same for flags of the command line; all others are in every release.
var flagSpans = map[string]span{
	"fingerprint-mode":                     {since: 21},
	"data-parallel-multi-port-external-lb": {since: 22},
	"data-parallel-supervisor-port":        {since: 22},
	"dp-supervisor-probe-interval-s":       {since: 22},
	"dp-supervisor-probe-timeout-s":        {since: 22},
	"dp-supervisor-probe-failure-threshold": {
		since: 22,
	},
	"device-ids":                 {since: 24},
	"enable-per-request-metrics": {since: 25},
	"enable-fault-tolerance":     {since: 27},
	"sse-keep-alive-interval":    {since: 29},
	"max-num-queued-reqs":        {since: 29},
	"max-num-queued-tokens":      {since: 29},
	"enable-scale-out":           {since: 29},
	"swap-space":                 {until: 28},
	"calculate-kv-scales":        {until: 28},
	"max-num-partial-prefills":   {until: 28},
	"max-long-partial-prefills":  {until: 28},
}

// has says whether a release has a feature.
func (r release) has(f feature) bool { return spans[f].holds(r) }

// knowsFlag says whether a release has a flag that the table of flags has.
func (r release) knowsFlag(name string) bool { return flagSpans[name].holds(r) }

func (s span) holds(r release) bool {
	return r >= s.since && (s.until == 0 || r <= s.until)
}
