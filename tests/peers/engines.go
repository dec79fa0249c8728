package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// served is the name of the model that the engines serve.
const served = "qwen3-4b"

// utilization is the share of a card's memory that an engine takes.
const utilization = 0.92

// engineFlags are the flags of each engine, as an operator of the seed's box has them.
var engineFlags = []string{
	"--gpu-memory-utilization", strconv.FormatFloat(utilization, 'g', -1, 64),
	"--served-model-name", served, "--max-num-seqs", "32", "--max-num-batched-tokens", "2048",
	"--enable-prompt-tokens-details", "--enable-scale-out", "--disable-uvicorn-access-log",
}

// engines are simulated replicas, on addresses that stay the same over restarts.
type engines struct {
	binary    string
	preset    string
	speed     float64
	dir       string
	addresses []string
	running   []*process
}

// command is the command line of one engine.
func (e *engines) command(address string) []string {
	host, port, _ := strings.Cut(address, ":")
	args := []string{e.binary, "vllmd", "serve", "Qwen/Qwen3-4B-Instruct-2507", "--host", host, "--port", port}
	return append(args, engineFlags...)
}

// urls are the base URLs of the engines.
func (e *engines) urls() []string {
	var urls []string
	for _, a := range e.addresses {
		urls = append(urls, "http://"+a)
	}
	return urls
}

// restart ends the engines and starts them anew, with empty caches.
func (e *engines) restart(ctx context.Context) error {
	e.stop()
	env := []string{
		"LMWARDEN_SIM_PRESET=" + e.preset, "LMWARDEN_SIM_START=0s",
		"LMWARDEN_SIM_SPEED=" + strconv.FormatFloat(e.speed, 'g', -1, 64),
	}
	for i, address := range e.addresses {
		p, err := start(e.dir, fmt.Sprintf("engine-%d", i), env, e.command(address))
		if err != nil {
			return err
		}
		e.running = append(e.running, p)
	}
	for i, url := range e.urls() {
		err := e.running[i].ready(ctx, func(ctx context.Context) error { return answers(ctx, url+"/health") })
		if err != nil {
			return err
		}
	}
	return nil
}

// stop ends all of them.
func (e *engines) stop() {
	for _, p := range e.running {
		p.stop()
	}
	e.running = nil
}

// busy counts the engines that run requests, by their own metrics.
func (e *engines) busy(ctx context.Context) (n int, known bool) {
	for _, url := range e.urls() {
		running, err := gauge(ctx, url+"/metrics", "vllm:num_requests_running")
		if err != nil {
			return 0, false
		}
		if running > 0 {
			n++
		}
	}
	return n, true
}

// errNoMetric means that an engine does not report what was asked for.
var errNoMetric = errors.New("the metric is not there")

// gauge reads one figure of a page of metrics.
func gauge(ctx context.Context, url, name string) (float64, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		if rest, ok := strings.CutPrefix(lines.Text(), name+"{"); ok {
			return strconv.ParseFloat(rest[strings.LastIndexByte(rest, ' ')+1:], 64)
		}
	}
	if err := lines.Err(); err != nil {
		return 0, err
	}
	return 0, errNoMetric
}
