package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/lmwarden/lmwarden/sim/engine"
)

// box is what a router stands in: the engines behind it and the address before it.
type box struct {
	front  string   // address on which the router listens
	admin  string   // a second one, for a router that needs it
	urls   []string // of the engines
	dir    string   // for its files, empty at its start
	binary string   // ours
	peers  string   // folder of the installed ones

	preset engine.Preset // what the engines simulate
	speed  float64       // and how much faster
}

// port is the port of an address.
func port(address string) string { return address[strings.LastIndexByte(address, ':')+1:] }

// arm is one router with its flags.
type arm struct {
	// name in the table.
	name string
	// program that must be there, or its absolute path.
	program func(box) string
	// version is its own, when it is pinned; else a command line tells it.
	version string
	ask     func(box) []string
	// policy is the name that the simulator knows its rule by; empty for the peers.
	policy string
	// command starts it in the foreground. It may write files into the box's folder.
	command func(box) ([]string, error)
}

// The peers' versions; tests/peers/install.sh installs the same.
const (
	vllmRouter   = "vllm-router-0.1.17"
	sglangRouter = "sglang-router-0.3.2"
)

// arms are all that can be compared, in the order of the first step.
func arms() []arm {
	all := []arm{
		nginxArm("nginx least_conn", "least_conn;"),
		nginxArm("nginx hash", "hash $http_x_session_id consistent;"),
	}
	for _, policy := range []string{"round_robin", "random", "power_of_two", "consistent_hash", "sticky_least_loaded", "cache_aware"} {
		all = append(all, vllmArm("vllm-router "+policy, "--policy", policy))
	}
	return append(
		all,
		vllmArm("vllm-router cache_aware 0.5", "--policy", "cache_aware", "--cache-threshold", "0.5"),
		programsArm("vllm-router programs"),
		sglangArm("sglang-router cache_aware", "--policy", "cache_aware"),
		sglangArm("sglang-router cache_aware 0.5", "--policy", "cache_aware", "--cache-threshold", "0.5"),
		ownArm("lmwarden off", "off", "off", "none"),
		ownArm(ownSeed, "seed", "on", "none"),
		ownArm(ownBest, "working-set", "on", "working set"),
	)
}

// vllmArm is vllm-router with some flags. It asks its engines for their health once a
// second at its start, where it would every 30 s.
func vllmArm(name string, flags ...string) arm {
	program := func(b box) string { return filepath.Join(b.peers, vllmRouter, "bin", "vllm-router") }
	return arm{
		name: name, program: program, version: vllmRouter,
		command: func(b box) ([]string, error) {
			args := []string{program(b), "--host", "127.0.0.1", "--port", port(b.front), "--prometheus-port", port(b.admin), "--worker-startup-check-interval", "1"}
			return append(append(append(args, flags...), "--worker-urls"), b.urls...), nil
		},
	}
}

// sglangArm is sglang-router with some flags.
func sglangArm(name string, flags ...string) arm {
	program := func(b box) string { return filepath.Join(b.peers, sglangRouter, "bin", "sglang-router") }
	return arm{
		name: name, program: program, version: sglangRouter,
		command: func(b box) ([]string, error) {
			args := []string{program(b), "launch", "--host", "127.0.0.1", "--port", port(b.front), "--prometheus-port", port(b.admin), "--worker-startup-check-interval", "1"}
			return append(append(append(args, flags...), "--worker-urls"), b.urls...), nil
		},
	}
}

// nginxArm is nginx with one line that says how it chooses. It passes streams on as
// they come and keeps its connections to the engines.
func nginxArm(name, choice string) arm {
	return arm{
		name:    name,
		program: func(box) string { return "nginx" },
		ask:     func(box) []string { return []string{"nginx", "-v"} },
		command: func(b box) ([]string, error) {
			var servers strings.Builder
			for _, url := range b.urls {
				fmt.Fprintf(&servers, "    server %s;\n", strings.TrimPrefix(url, "http://"))
			}
			path := filepath.Join(b.dir, "nginx.conf")
			text := fmt.Sprintf(nginxConfig, b.dir, choice, servers.String(), b.front)
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				return nil, fmt.Errorf("write nginx's configuration: %w", err)
			}
			return []string{"nginx", "-p", b.dir, "-e", "stderr", "-c", path}, nil
		},
	}
}

// nginxConfig takes the folder, the choice, the servers and the address.
const nginxConfig = `daemon off;
worker_processes 1;
pid nginx.pid;
error_log stderr warn;
events { worker_connections 1024; }
http {
  access_log off;
  client_body_temp_path %[1]s/body;
  proxy_temp_path %[1]s/proxy;
  fastcgi_temp_path %[1]s/fastcgi;
  uwsgi_temp_path %[1]s/uwsgi;
  scgi_temp_path %[1]s/scgi;
  client_body_buffer_size 1m;
  client_max_body_size 64m;
  upstream engines {
    %[2]s
%[3]s    keepalive 64;
  }
  server {
    listen %[4]s;
    location / {
      proxy_pass http://engines;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_buffering off;
      proxy_read_timeout 1h;
    }
  }
}
`

// Names of our own arms that the verdict is about.
const (
	ownSeed = "lmwarden seed"
	ownBest = "lmwarden working set"
)

// ownArm is our daemon with the engines as a remote model and the seed's placement.
func ownArm(name, policy, affinity, admission string) arm {
	return arm{
		name:    name,
		policy:  policy,
		program: func(b box) string { return b.binary },
		ask:     func(b box) []string { return []string{b.binary, "version"} },
		command: func(b box) ([]string, error) {
			path := filepath.Join(b.dir, "lmwarden.yaml")
			quoted := make([]string, len(b.urls))
			for i, url := range b.urls {
				quoted[i] = fmt.Sprintf("%q", url)
			}
			text := fmt.Sprintf(ownConfig, b.front, b.admin, filepath.Join(b.dir, "data"), served, strings.Join(quoted, ", "), affinity, admission)
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				return nil, fmt.Errorf("write our configuration: %w", err)
			}
			return []string{b.binary, "serve", "--config", path}, nil
		},
	}
}

// ownConfig takes both addresses, the folder of the data, the model, the engines and
// whether affinity is on, and the admission.
const ownConfig = `inference_listen: %s
admin_listen: %s
data_dir: %s
models:
  - name: %s
    spec:
      source: Qwen/Qwen3-4B-Instruct-2507
      replica_mode: remote
      remote_urls: [%s]
      max_num_seqs: 32
    routing:
      affinity: %s
      policy: least loaded
      spill: count
      admission: %s
`
