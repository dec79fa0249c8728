package proxyload

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// findNginx returns nginx's path and its version, "nginx/1.22.1"; else a sentence that
// says why there is none and what to install.
func findNginx(ctx context.Context, program string) (path, version, missing string) {
	path, err := exec.LookPath(program)
	if err != nil && program == "nginx" {
		path, err = exec.LookPath("/usr/sbin/nginx") // not on everybody's path
	}
	if err != nil {
		return "", "", program + " is not installed (Debian: apt-get install --no-install-recommends nginx-light), so it is left out"
	}
	out, err := exec.CommandContext(ctx, path, "-v").CombinedOutput()
	_, version, found := strings.Cut(strings.TrimSpace(string(out)), "nginx version: ")
	if err != nil || !found {
		return "", "", fmt.Sprintf("%s -v does not tell the version of nginx, so it is left out: %s", path, strings.TrimSpace(string(out)))
	}
	return path, version, ""
}

// beginNginx starts nginx on a port that is free. It cannot be told to choose one, so
// another program may take it before; then there is another try.
func (b *Box) beginNginx(ctx context.Context, program string) error {
	var failed error
	for range 3 {
		address, err := freeAddress(ctx)
		if err != nil {
			return err
		}
		conf := filepath.Join(b.dir, "nginx.conf")
		if err := os.WriteFile(conf, []byte(nginxConfig(b.dir, address, b.engines)), 0o600); err != nil {
			return fmt.Errorf("write nginx's configuration: %w", err)
		}
		p, err := begin("nginx", program, "-p", b.dir, "-e", "stderr", "-c", conf)
		if err != nil {
			return err
		}
		if failed = b.join(ctx, p, "http://"+address); failed == nil {
			return nil
		}
		p.stop()
		if ctx.Err() != nil {
			break
		}
	}
	return failed
}

// freeAddress returns a loopback address whose port is free now.
func freeAddress(ctx context.Context) (string, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("no loopback port can be opened: %w", err)
	}
	return l.Addr().String(), errors.Join(l.Close())
}

// nginxConfig is nginx as one sets it up before engines: it passes streams on as they
// come, keeps its connections on both sides, and uses every processor, as Go does.
func nginxConfig(dir, address string, engines []string) string {
	var servers strings.Builder
	for _, engine := range engines {
		fmt.Fprintf(&servers, "    server %s;\n", strings.TrimPrefix(engine, "http://"))
	}
	user := ""
	if os.Geteuid() == 0 {
		user = "user root;\n" // its usual one may not exist, and cannot read the folder
	}
	return user + fmt.Sprintf(nginxText, dir, address, servers.String())
}

// nginxText takes the folder, the address and the servers.
const nginxText = `daemon off;
worker_processes auto;
worker_rlimit_nofile 8192;
pid nginx.pid;
error_log stderr error;
events { worker_connections 4096; }
http {
  access_log off;
  client_body_temp_path %[1]s/body;
  proxy_temp_path %[1]s/proxy;
  fastcgi_temp_path %[1]s/fastcgi;
  uwsgi_temp_path %[1]s/uwsgi;
  scgi_temp_path %[1]s/scgi;
  client_body_buffer_size 1m;
  client_max_body_size 64m;
  keepalive_timeout 1h;
  keepalive_requests 1000000;
  upstream engines {
%[3]s    keepalive 1024;
    keepalive_requests 1000000;
    keepalive_timeout 1h;
  }
  server {
    listen %[2]s backlog=1024;
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
